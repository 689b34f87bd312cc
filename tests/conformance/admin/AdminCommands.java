import java.io.InputStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.Map;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.server.NIOServerCnxnFactory;
import org.apache.zookeeper.server.ServerCnxnFactory;
import org.apache.zookeeper.server.ZooKeeperServer;
import org.apache.zookeeper.server.admin.CommandResponse;
import org.apache.zookeeper.server.admin.Commands;
import org.apache.zookeeper.server.admin.JsonOutputter;

/** What ZooKeeper's admin server answers, without its HTTP: a line "= name status names", then the JSON, for each. */
public class AdminCommands {
    public static void main(String[] arguments) throws Exception {
        Path directory = Path.of(arguments[0]);
        ZooKeeperServer server = new ZooKeeperServer(directory.toFile(), directory.toFile(), 3000);
        ServerCnxnFactory factory = new NIOServerCnxnFactory();
        factory.configure(new InetSocketAddress("127.0.0.1", 0), 60);
        factory.startup(server);
        ZooKeeper client = new ZooKeeper("127.0.0.1:" + factory.getLocalPort(), 10000, event -> {});
        client.create("/a", new byte[1], ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        client.create("/e", new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        client.getData("/a", true, null);
        client.exists("/nope", true);
        for (String name : new TreeSet<>(Commands.getPrimaryNames())) {
            print(name, Commands.runGetCommand(name, server, Map.of("traceMask", "306"), null, null));
        }
        for (String auth : new String[] {"digest", "digest  a:b", "nope a:b", "ip 127.0.0.1", "digest a"}) {
            print("snapshot", Commands.runGetCommand("snapshot", server, Map.of("streaming", "false"), auth, null));
        }
        print("snapshot", Commands.runGetCommand("snapshot", server, Map.of("streaming", "false"), "digest a:b", null));
        print("restore", Commands.runPostCommand("restore", server, null, null, null));
        print("restore", Commands.runPostCommand("restore", server, null, "digest a:b", null));
        print("restore", Commands.runPostCommand("restore", server, newest(directory), "digest a:b", null));
        print("restore", Commands.runPostCommand("restore", server, newest(directory), "digest a:b", null));
        print("nope", Commands.runGetCommand("nope", server, Map.of(), null, null));
        print("srvr", Commands.runGetCommand("srvr", null, Map.of(), null, null));
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static InputStream newest(Path directory) throws Exception {
        try (Stream<Path> files = Files.list(directory.resolve("version-2"))) {
            return Files.newInputStream(
                    files.filter(file -> file.getFileName().toString().startsWith("snapshot."))
                            .max(Comparator.comparing(Path::toString)).orElseThrow());
        }
    }

    private static void print(String name, CommandResponse response) {
        StringWriter text = new StringWriter();
        new JsonOutputter(name).output(response, new PrintWriter(text));
        String names = Commands.getCommand(name) == null ? "" : String.join(" ", Commands.getCommand(name).getNames());
        System.out.println("= " + name + " " + response.getStatusCode() + " " + names);
        System.out.println(text);
    }
}
