import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;

import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/**
 * Runs the JUnit tests of the classes that are named, and prints a line for each: "> passed", "> failed" or "> skipped",
 * the test, and why.
 */
public class RunTests implements TestExecutionListener {
    public static void main(String[] names) throws Exception {
        LauncherDiscoveryRequestBuilder request = LauncherDiscoveryRequestBuilder.request();
        for (String name : names) {
            request.selectors(selectClass(name));
        }
        LauncherFactory.create().execute(request.build(), new RunTests());
        System.out.println("> end");
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    @Override
    public void executionSkipped(TestIdentifier test, String reason) {
        say("skipped", test, reason);
    }

    @Override
    public void executionFinished(TestIdentifier test, TestExecutionResult result) {
        Throwable error = result.getThrowable().orElse(null);
        if (test.isTest() || error != null) {
            String kind = switch (result.getStatus()) {
                case SUCCESSFUL -> "passed";
                case ABORTED -> "skipped";
                case FAILED -> "failed";
            };
            say(kind, test, error == null ? "" : place(error));
        }
    }

    private static String place(Throwable error) {
        for (StackTraceElement element : error.getStackTrace()) {
            if (element.getClassName().startsWith("org.apache.bookkeeper")) {
                return error + " at " + element;
            }
        }
        return error.toString();
    }

    private static void say(String kind, TestIdentifier test, String reason) {
        String text = "> " + kind + "\t" + test.getDisplayName() + "\t" + reason;
        System.out.println(text.replace('\n', ' '));
        System.out.flush();
    }
}
