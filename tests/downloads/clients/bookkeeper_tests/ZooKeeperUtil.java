package org.apache.bookkeeper.test;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.zookeeper.ZooKeeperClient;
import org.apache.commons.io.FileUtils;
import org.apache.zookeeper.ZooKeeper;

/**
 * Stands in for the class of the same name in BookKeeper's test jar: its ZooKeeper is a member of zab, a process. The
 * words of its command are in the system property "zab.member", separated by tabs; the file of its configuration is
 * added. It is stopped by kill -9, and ends with this process: the shell around it waits for the end of a pipe that only this process holds open.
 */
public class ZooKeeperUtil implements ZooKeeperCluster {
    private static final String GUARD =
        "\"$@\" >>\"$JOURNAL\" 2>&1 </dev/null & echo $!; read -r line; kill -9 $!; wait $! 2>/dev/null";
    private static final long PATIENCE_MS = 60_000;
    private static final int SESSION_MS = 10_000;

    protected Integer zooKeeperPort = 0;
    protected ZooKeeper zkc;
    private final String host = InetAddress.getLoopbackAddress().getHostAddress();
    private File directory;
    private Process guard;
    private long member;

    @Override
    public ZooKeeper getZooKeeperClient() {
        return zkc;
    }

    @Override
    public String getZooKeeperConnectString() {
        return host + ":" + zooKeeperPort;
    }

    @Override
    public String getMetadataServiceUri() {
        return getMetadataServiceUri("/ledgers");
    }

    @Override
    public String getMetadataServiceUri(String root) {
        return "zk://" + getZooKeeperConnectString() + root;
    }

    @Override
    public String getMetadataServiceUri(String root, String type) {
        return "zk+" + type + "://" + getZooKeeperConnectString() + root;
    }

    @Override
    public void startCluster() throws Exception {
        directory = Files.createTempDirectory("zab-member").toFile();
        restartCluster();
        createBKEnsemble("/ledgers");
    }

    @Override
    public void restartCluster() throws Exception {
        if (zooKeeperPort == 0) {
            try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
                zooKeeperPort = socket.getLocalPort();
            }
        }
        Path file = directory.toPath().resolve("zoo.cfg");
        Files.writeString(file, "dataDir=" + directory + "\nclientPort=" + zooKeeperPort + "\nclientPortAddress=" + host
            + "\ntickTime=3000\nadmin.enableServer=false\n4lw.commands.whitelist=*\nmaxClientCnxns=0\n");
        List<String> command = new ArrayList<>(List.of("/bin/sh", "-c", GUARD, "sh"));
        command.addAll(List.of(System.getProperty("zab.member").split("\t")));
        command.add(file.toString());
        ProcessBuilder builder = new ProcessBuilder(command);
        builder.environment().put("JOURNAL", new File(directory, "member.log").toString());
        guard = builder.start();
        member = Long.parseLong(new BufferedReader(new InputStreamReader(guard.getInputStream())).readLine());
        awaitServing();
        zkc = ZooKeeperClient.newBuilder().connectString(getZooKeeperConnectString()).sessionTimeoutMs(SESSION_MS)
            .build();
    }

    private void awaitServing() throws Exception {
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        while (!serves()) {
            if (System.currentTimeMillis() > deadline) {
                throw new IOException("the member does not serve: "
                    + Files.readString(directory.toPath().resolve("member.log")));
            }
            Thread.sleep(20);
        }
    }

    private boolean serves() {
        try (Socket socket = new Socket(host, zooKeeperPort)) {
            socket.setSoTimeout(1000);
            socket.getOutputStream().write("srvr".getBytes());
            return new String(socket.getInputStream().readAllBytes()).contains("Mode:");
        } catch (IOException error) {
            return false;
        }
    }

    @Override
    public void sleepCluster(int time, TimeUnit unit, CountDownLatch asleep) throws InterruptedException, IOException {
        signal("STOP");
        asleep.countDown();
        Thread sleeper = new Thread(() -> {
            try {
                unit.sleep(time);
                signal("CONT");
            } catch (IOException | InterruptedException error) {
                throw new IllegalStateException(error);
            }
        });
        sleeper.start();
    }

    private void signal(String name) throws IOException, InterruptedException {
        new ProcessBuilder("kill", "-" + name, String.valueOf(member)).start().waitFor();
    }

    @Override
    public void stopCluster() throws Exception {
        if (zkc != null) {
            zkc.close();
        }
        if (guard != null) {
            guard.getOutputStream().close();
            guard.waitFor();
            guard = null;
        }
    }

    @Override
    public void killCluster() throws Exception {
        stopCluster();
        FileUtils.deleteDirectory(directory);
    }
}
