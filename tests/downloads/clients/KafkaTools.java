import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import org.apache.kafka.common.utils.Exit;

/** Runs Kafka's shell tools in one virtual machine: each line of the input is a class and its arguments. */
public class KafkaTools {
    private static class Ended extends RuntimeException {
        final int code;

        Ended(int code) {
            this.code = code;
        }
    }

    public static void main(String[] arguments) throws Exception {
        Exit.setExitProcedure((code, message) -> {
            throw new Ended(code);
        });
        Exit.setHaltProcedure((code, message) -> {
            throw new Ended(code);
        });
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split("\t");
            String[] rest = new String[words.length - 1];
            System.arraycopy(words, 1, rest, 0, rest.length);
            System.out.println("# " + line.replace("\t", " "));
            int code = 0;
            try {
                Class.forName(words[0]).getMethod("main", String[].class).invoke(null, (Object) rest);
            } catch (InvocationTargetException error) {
                if (!(error.getCause() instanceof Ended)) {
                    throw error;
                }
                code = ((Ended) error.getCause()).code;
            }
            System.out.println("ended with " + code);
            System.out.flush();
        }
    }
}
