import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.api.transaction.CuratorTransactionResult;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.atomic.PromotedToLock;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.cache.NodeCache;
import org.apache.curator.framework.recipes.cache.PathChildrenCache;
import org.apache.curator.framework.recipes.cache.PathChildrenCacheEvent;
import org.apache.curator.framework.recipes.cache.TreeCache;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.curator.framework.recipes.queue.DistributedDelayQueue;
import org.apache.curator.framework.recipes.queue.DistributedIdQueue;
import org.apache.curator.framework.recipes.queue.DistributedPriorityQueue;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedCountListener;
import org.apache.curator.framework.recipes.shared.SharedCountReader;
import org.apache.curator.framework.recipes.shared.VersionedValue;
import org.apache.curator.framework.recipes.watch.PersistentWatcher;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryForever;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooKeeper;

/**
 * Curator's recipes, each of two clients at different sessions.
 *
 * <pre>java CuratorRecipes.java [RECIPE ...] HOSTS</pre>
 *
 * Each recipe prints a line that begins with its name and says what was seen, and nothing that differs between two runs;
 * without names all are run, in their order. `please …` asks who runs this for what a client cannot do
 * (tests/rigs/client_programs.py). What should not happen ends it with exit code 1 and a reason.
 */
@SuppressWarnings("deprecation")
public class CuratorRecipes {
    static final int PATIENCE_SECONDS = 60;
    static final int SESSION_MS = 20_000;
    static final int CONNECT_MS = 10_000;
    static final int RETRY_MS = 20;
    static final int RETRIES = 1000;
    static final byte[] NOTHING = {};

    final String hosts;
    final CuratorFramework one;
    final CuratorFramework two;
    final ExecutorService threads = Executors.newCachedThreadPool();
    final BufferedReader answers = new BufferedReader(new InputStreamReader(System.in, UTF_8));
    final Map<String, Callable<String>> recipes = new LinkedHashMap<>();

    CuratorRecipes(String hosts) throws Exception {
        this.hosts = hosts;
        one = client();
        two = client();
        recipes.put("transaction", this::transaction);
        recipes.put("mutex", this::mutex);
        recipes.put("mutex of many", this::mutexOfMany);
        recipes.put("read-write lock", this::readWriteLock);
        recipes.put("multi lock", this::multiLock);
        recipes.put("semaphore mutex", this::semaphoreMutex);
        recipes.put("semaphore", this::semaphore);
        recipes.put("leader latch", this::leaderLatch);
        recipes.put("leader selector", this::leaderSelector);
        recipes.put("node cache", this::nodeCache);
        recipes.put("path children cache", this::pathChildrenCache);
        recipes.put("tree cache", this::treeCache);
        recipes.put("curator cache", this::curatorCache);
        recipes.put("persistent watcher", this::persistentWatcher);
        recipes.put("shared count", this::sharedCount);
        recipes.put("atomic long", this::atomicLong);
        recipes.put("queue", this::queue);
        recipes.put("priority queue", this::priorityQueue);
        recipes.put("delay queue", this::delayQueue);
        recipes.put("id queue", this::idQueue);
        recipes.put("simple queue", this::simpleQueue);
        recipes.put("barrier", this::barrier);
        recipes.put("double barrier", this::doubleBarrier);
        recipes.put("persistent node", this::persistentNode);
        recipes.put("persistent ttl node", this::persistentTtlNode);
        recipes.put("group member", this::groupMember);
        recipes.put("killed leader", this::killedLeader);
        recipes.put("killed member", this::killedMember);
        recipes.put("lost session", this::lostSession);
    }

    public static void main(String[] words) throws Exception {
        List<String> names = List.of(words).subList(0, words.length - 1);
        CuratorRecipes program = new CuratorRecipes(words[words.length - 1]);
        for (String name : names.isEmpty() ? program.recipes.keySet() : names) {
            System.out.println(name + ": " + program.recipes.get(name).call());
        }
        program.one.close();
        program.two.close();
        System.out.println("the end");
        System.exit(0);
    }

    // What the recipes share.

    CuratorFramework client() throws Exception {
        CuratorFramework client =
                CuratorFrameworkFactory.newClient(hosts, SESSION_MS, CONNECT_MS, new RetryNTimes(RETRIES, RETRY_MS));
        client.start();
        check(client.blockUntilConnected(PATIENCE_SECONDS, TimeUnit.SECONDS), "no connection");
        return client;
    }

    static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    static boolean acquired(InterProcessLock lock) throws Exception {
        return lock.acquire(PATIENCE_SECONDS, TimeUnit.SECONDS);
    }

    static boolean acquiredAtOnce(InterProcessLock lock) throws Exception {
        return lock.acquire(0, TimeUnit.SECONDS);
    }

    static <T> T next(BlockingQueue<T> events) throws InterruptedException {
        T found = events.poll(PATIENCE_SECONDS, TimeUnit.SECONDS);
        check(found != null, "nothing comes");
        return found;
    }

    static <T> T result(Future<T> future) throws Exception {
        return future.get(PATIENCE_SECONDS, TimeUnit.SECONDS);
    }

    static byte[] bytes(String text) {
        return text.getBytes(UTF_8);
    }

    static String text(ChildData data) {
        return data == null ? "nothing" : new String(data.getData(), UTF_8);
    }

    static void upToDate(CuratorFramework client) throws Exception {
        BlockingQueue<Integer> synced = new LinkedBlockingQueue<>();
        client.sync().inBackground((framework, event) -> synced.add(event.getResultCode())).forPath("/");
        check(next(synced) == 0, "no sync");
    }

    void ask(String what) throws Exception {
        System.out.println("please " + what);
        check("done".equals(answers.readLine()), "nobody does: " + what);
    }

    // Znodes.

    String transaction() throws Exception {
        String protectedPath = one.create()
                .creatingParentsIfNeeded()
                .withProtection()
                .withMode(CreateMode.EPHEMERAL_SEQUENTIAL)
                .forPath("/transaction/p-", NOTHING);
        check(protectedPath.endsWith("-p-0000000000"), protectedPath);
        List<CuratorTransactionResult> results = one.transaction()
                .forOperations(
                        one.transactionOp().create().forPath("/transaction/a", bytes("1")),
                        one.transactionOp().setData().withVersion(0).forPath("/transaction/a", bytes("2")),
                        one.transactionOp().check().withVersion(1).forPath("/transaction/a"),
                        one.transactionOp().delete().forPath(protectedPath));
        List<String> types = new ArrayList<>();
        for (CuratorTransactionResult each : results) {
            types.add(each.getType() + " " + each.getError());
        }
        one.create().orSetData().forPath("/transaction/a", bytes("3"));
        one.delete().guaranteed().deletingChildrenIfNeeded().forPath("/transaction");
        return types + ", " + one.checkExists().forPath("/transaction");
    }

    // Locks.

    String mutex() throws Exception {
        InterProcessMutex mine = new InterProcessMutex(one, "/mutex");
        InterProcessMutex theirs = new InterProcessMutex(two, "/mutex");
        check(acquired(mine) && acquired(mine), "the lock is free, and re-entrant");
        boolean atOnce = acquiredAtOnce(theirs);
        Future<Boolean> waiting = threads.submit(() -> acquired(theirs) && theirs.isOwnedByCurrentThread());
        while (mine.getParticipantNodes().size() < 2) {
            upToDate(one);
        }
        mine.release();
        boolean tooEarly = waiting.isDone();
        mine.release();
        return "held " + atOnce + ", released once " + tooEarly + ", released twice " + result(waiting);
    }

    String mutexOfMany() throws Exception {
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger worst = new AtomicInteger();
        AtomicInteger rounds = new AtomicInteger();
        List<Future<?>> workers = new ArrayList<>();
        for (int worker = 0; worker < 4; worker++) {
            CuratorFramework client = worker % 2 == 0 ? one : two;
            workers.add(threads.submit(() -> {
                InterProcessMutex lock = new InterProcessMutex(client, "/mutex-of-many");
                for (int round = 0; round < 10; round++) {
                    check(acquired(lock), "the lock does not come");
                    worst.accumulateAndGet(inside.incrementAndGet(), Math::max);
                    rounds.incrementAndGet();
                    inside.decrementAndGet();
                    lock.release();
                }
                return null;
            }));
        }
        for (Future<?> worker : workers) {
            result(worker);
        }
        return rounds + " rounds, at most " + worst + " inside";
    }

    String readWriteLock() throws Exception {
        InterProcessReadWriteLock mine = new InterProcessReadWriteLock(one, "/read-write");
        InterProcessReadWriteLock theirs = new InterProcessReadWriteLock(two, "/read-write");
        check(acquired(mine.readLock()) && acquired(theirs.readLock()), "two readers");
        boolean withReaders = acquiredAtOnce(new InterProcessReadWriteLock(one, "/read-write").writeLock());
        mine.readLock().release();
        theirs.readLock().release();
        check(acquired(mine.writeLock()), "a writer alone");
        boolean withWriter = acquiredAtOnce(theirs.readLock());
        check(acquired(mine.readLock()), "a writer may read");
        mine.writeLock().release();
        return "a writer beside readers " + withReaders + ", a reader beside a writer " + withWriter
                + ", and after it " + acquired(theirs.readLock());
    }

    String multiLock() throws Exception {
        InterProcessMultiLock both = new InterProcessMultiLock(one, List.of("/multi/a", "/multi/b"));
        check(acquired(both), "both are free");
        boolean whileHeld = acquiredAtOnce(new InterProcessMutex(two, "/multi/b"));
        both.release();
        return "one of them " + whileHeld + ", and after it " + acquired(new InterProcessMutex(two, "/multi/b"));
    }

    String semaphoreMutex() throws Exception {
        InterProcessSemaphoreMutex mine = new InterProcessSemaphoreMutex(one, "/semaphore-mutex");
        check(acquired(mine), "it is free");
        boolean again = acquiredAtOnce(mine);
        mine.release();
        return "not re-entrant " + again + ", elsewhere "
                + acquired(new InterProcessSemaphoreMutex(two, "/semaphore-mutex"));
    }

    String semaphore() throws Exception {
        InterProcessSemaphoreV2 mine = new InterProcessSemaphoreV2(one, "/semaphore", 3);
        InterProcessSemaphoreV2 theirs = new InterProcessSemaphoreV2(two, "/semaphore", 3);
        List<Lease> leases = new ArrayList<>(mine.acquire(2, PATIENCE_SECONDS, TimeUnit.SECONDS));
        leases.add(theirs.acquire(PATIENCE_SECONDS, TimeUnit.SECONDS));
        boolean fourth = theirs.acquire(0, TimeUnit.SECONDS) != null;
        Future<Lease> waiting = threads.submit(() -> theirs.acquire(PATIENCE_SECONDS, TimeUnit.SECONDS));
        mine.returnLease(leases.get(0));
        return leases.size() + " leases, a fourth " + fourth + ", and after one is given back "
                + (result(waiting) != null);
    }

    // Leaders.

    String leaderLatch() throws Exception {
        LeaderLatch mine = new LeaderLatch(one, "/latch", "one");
        LeaderLatch theirs = new LeaderLatch(two, "/latch", "two");
        mine.start();
        check(mine.await(PATIENCE_SECONDS, TimeUnit.SECONDS), "alone it leads");
        theirs.start();
        while (mine.getParticipants().size() < 2) {
            upToDate(one);
        }
        String before = mine.getLeader().getId() + " " + theirs.hasLeadership();
        mine.close();
        check(theirs.await(PATIENCE_SECONDS, TimeUnit.SECONDS), "the next one leads");
        String after = theirs.getLeader().getId();
        theirs.close();
        return before + ", after it closed " + after;
    }

    String leaderSelector() throws Exception {
        BlockingQueue<String> led = new LinkedBlockingQueue<>();
        AtomicInteger inside = new AtomicInteger();
        List<LeaderSelector> selectors = new ArrayList<>();
        for (CuratorFramework client : List.of(one, two, one)) {
            LeaderSelector selector = new LeaderSelector(client, "/selector", new LeaderSelectorListenerAdapter() {
                @Override
                public void takeLeadership(CuratorFramework leading) {
                    led.add(leading == one ? "one " + inside.incrementAndGet() : "two " + inside.incrementAndGet());
                    inside.decrementAndGet();
                }
            });
            selectors.add(selector);
            selector.start();
        }
        List<String> all = new ArrayList<>(List.of(next(led), next(led), next(led)));
        Collections.sort(all);
        for (LeaderSelector selector : selectors) {
            selector.close();
        }
        return all.toString();
    }

    // Caches.

    String nodeCache() throws Exception {
        BlockingQueue<String> seen = new LinkedBlockingQueue<>();
        NodeCache cache = new NodeCache(two, "/node-cache");
        cache.getListenable().addListener(() -> seen.add(text(cache.getCurrentData())));
        cache.start(true);
        List<String> found = new ArrayList<>();
        one.create().forPath("/node-cache", bytes("1"));
        found.add(next(seen));
        one.setData().forPath("/node-cache", bytes("2"));
        found.add(next(seen));
        one.delete().forPath("/node-cache");
        found.add(next(seen));
        cache.close();
        return found.toString();
    }

    String pathChildrenCache() throws Exception {
        BlockingQueue<String> seen = new LinkedBlockingQueue<>();
        one.create().creatingParentsIfNeeded().forPath("/path-cache/old", bytes("0"));
        upToDate(two);
        PathChildrenCache cache = new PathChildrenCache(two, "/path-cache", true);
        cache.getListenable().addListener((client, event) -> {
            if (event.getType() == PathChildrenCacheEvent.Type.INITIALIZED) {
                seen.add("INITIALIZED " + event.getInitialData().size());
            } else if (event.getData() != null) {
                seen.add(event.getType() + " " + event.getData().getPath() + " " + text(event.getData()));
            }
        });
        cache.start(PathChildrenCache.StartMode.POST_INITIALIZED_EVENT);
        List<String> found = new ArrayList<>(List.of(next(seen), next(seen)));
        one.create().forPath("/path-cache/new", bytes("1"));
        found.add(next(seen));
        one.setData().forPath("/path-cache/new", bytes("2"));
        found.add(next(seen));
        one.delete().forPath("/path-cache/new");
        found.add(next(seen));
        cache.close();
        return found.toString();
    }

    String treeCache() throws Exception {
        BlockingQueue<String> seen = new LinkedBlockingQueue<>();
        one.create().creatingParentsIfNeeded().forPath("/tree-cache/a", bytes("0"));
        upToDate(two);
        TreeCache cache = new TreeCache(two, "/tree-cache");
        cache.getListenable().addListener((client, event) -> {
            String path = event.getData() == null ? "" : " " + event.getData().getPath();
            seen.add(event.getType() + path);
        });
        cache.start();
        List<String> found = new ArrayList<>(List.of(next(seen), next(seen), next(seen)));
        one.create().forPath("/tree-cache/a/b", bytes("1"));
        found.add(next(seen));
        one.delete().forPath("/tree-cache/a/b");
        found.add(next(seen));
        cache.close();
        return found.toString();
    }

    String curatorCache() throws Exception {
        BlockingQueue<String> seen = new LinkedBlockingQueue<>();
        one.create().creatingParentsIfNeeded().forPath("/curator-cache/a", bytes("0"));
        upToDate(two);
        CountDownLatch initialized = new CountDownLatch(1);
        CuratorCache cache = CuratorCache.build(two, "/curator-cache");
        cache.listenable().addListener(CuratorCacheListener.builder()
                .forInitialized(initialized::countDown)
                .forAll((type, old, data) -> {
                    if (initialized.getCount() == 0) {
                        seen.add(type + " " + (data == null ? old : data).getPath() + " " + text(data));
                    }
                })
                .build());
        cache.start();
        check(initialized.await(PATIENCE_SECONDS, TimeUnit.SECONDS), "the cache is not filled");
        int size = cache.size();
        List<String> found = new ArrayList<>();
        one.create().forPath("/curator-cache/a/b", bytes("1"));
        found.add(next(seen));
        one.setData().forPath("/curator-cache/a/b", bytes("2"));
        found.add(next(seen));
        one.delete().forPath("/curator-cache/a/b");
        found.add(next(seen));
        cache.close();
        return size + " " + found;
    }

    String persistentWatcher() throws Exception {
        BlockingQueue<String> seen = new LinkedBlockingQueue<>();
        CountDownLatch set = new CountDownLatch(1);
        PersistentWatcher watcher = new PersistentWatcher(two, "/watcher", true);
        watcher.getListenable().addListener(event -> seen.add(event.getType() + " " + event.getPath()));
        watcher.getResetListenable().addListener(set::countDown);
        watcher.start();
        check(set.await(PATIENCE_SECONDS, TimeUnit.SECONDS), "the watch is not set");
        one.create().creatingParentsIfNeeded().forPath("/watcher/a/b");
        one.setData().forPath("/watcher/a", bytes("2"));
        one.delete().deletingChildrenIfNeeded().forPath("/watcher");
        List<String> found = new ArrayList<>();
        for (int event = 0; event < 7; event++) {
            found.add(next(seen));
        }
        watcher.close();
        return found.toString();
    }

    // Numbers.

    String sharedCount() throws Exception {
        BlockingQueue<Integer> seen = new LinkedBlockingQueue<>();
        SharedCount mine = new SharedCount(one, "/count", 3);
        mine.start();
        upToDate(two);
        SharedCount theirs = new SharedCount(two, "/count", 7);
        theirs.addListener(new SharedCountListener() {
            @Override
            public void countHasChanged(SharedCountReader count, int value) {
                seen.add(value);
            }

            @Override
            public void stateChanged(CuratorFramework client, ConnectionState state) {}
        });
        theirs.start();
        int initial = theirs.getCount();
        VersionedValue<Integer> old = mine.getVersionedValue();
        mine.setCount(10);
        int told = next(seen);
        boolean stale = mine.trySetCount(old, 11);
        boolean fresh = theirs.trySetCount(theirs.getVersionedValue(), 12);
        mine.close();
        theirs.close();
        return initial + ", told " + told + ", with a version that is over " + stale + ", with the last " + fresh;
    }

    String atomicLong() throws Exception {
        List<Future<Integer>> workers = new ArrayList<>();
        for (int worker = 0; worker < 4; worker++) {
            CuratorFramework client = worker % 2 == 0 ? one : two;
            workers.add(threads.submit(() -> {
                PromotedToLock lock = PromotedToLock.builder()
                        .lockPath("/atomic-lock")
                        .retryPolicy(new RetryForever(RETRY_MS))
                        .timeout(PATIENCE_SECONDS, TimeUnit.SECONDS)
                        .build();
                DistributedAtomicLong number =
                        new DistributedAtomicLong(client, "/atomic", new RetryNTimes(3, RETRY_MS), lock);
                int counted = 0;
                for (int each = 0; each < 10; each++) {
                    counted += number.increment().succeeded() ? 1 : 0;
                }
                return counted;
            }));
        }
        int counted = 0;
        for (Future<Integer> worker : workers) {
            counted += result(worker);
        }
        upToDate(one);
        DistributedAtomicLong number = new DistributedAtomicLong(one, "/atomic", new RetryNTimes(3, RETRY_MS));
        AtomicValue<Long> last = number.get();
        boolean wrong = number.compareAndSet(1L, 2L).succeeded();
        boolean right = number.compareAndSet(last.postValue(), 1000L).succeeded();
        return counted + " counted, " + last.postValue() + ", " + wrong + " " + right + " "
                + number.get().postValue();
    }

    // Queues.

    static final QueueSerializer<String> TEXT = new QueueSerializer<>() {
        @Override
        public byte[] serialize(String item) {
            return bytes(item);
        }

        @Override
        public String deserialize(byte[] data) {
            return new String(data, UTF_8);
        }
    };

    static QueueConsumer<String> into(BlockingQueue<String> taken) {
        return new QueueConsumer<>() {
            @Override
            public void consumeMessage(String item) {
                taken.add(item);
            }

            @Override
            public void stateChanged(CuratorFramework client, ConnectionState state) {}
        };
    }

    String queue() throws Exception {
        BlockingQueue<String> taken = new LinkedBlockingQueue<>();
        DistributedQueue<String> putting =
                QueueBuilder.builder(one, null, TEXT, "/queue").buildQueue();
        DistributedQueue<String> taking = QueueBuilder.builder(two, into(taken), TEXT, "/queue")
                .lockPath("/queue-lock")
                .buildQueue();
        putting.start();
        for (String item : List.of("a", "b", "c")) {
            putting.put(item);
        }
        check(putting.flushPuts(PATIENCE_SECONDS, TimeUnit.SECONDS), "the puts do not end");
        taking.start();
        List<String> found = List.of(next(taken), next(taken), next(taken));
        putting.put("d");
        String last = next(taken);
        taking.close();
        putting.close();
        return found + ", then " + last;
    }

    String priorityQueue() throws Exception {
        BlockingQueue<String> taken = new LinkedBlockingQueue<>();
        DistributedPriorityQueue<String> putting =
                QueueBuilder.builder(one, null, TEXT, "/priority").buildPriorityQueue(0);
        putting.start();
        putting.put("late", 9);
        putting.put("soon", 1);
        check(putting.flushPuts(PATIENCE_SECONDS, TimeUnit.SECONDS), "the puts do not end");
        upToDate(two);
        DistributedPriorityQueue<String> taking =
                QueueBuilder.builder(two, into(taken), TEXT, "/priority").buildPriorityQueue(0);
        taking.start();
        List<String> found = List.of(next(taken), next(taken));
        taking.close();
        putting.close();
        return found.toString();
    }

    String delayQueue() throws Exception {
        BlockingQueue<String> taken = new LinkedBlockingQueue<>();
        DistributedDelayQueue<String> queue =
                QueueBuilder.builder(one, into(taken), TEXT, "/delay").buildDelayQueue();
        queue.start();
        long now = System.currentTimeMillis();
        queue.put("later", now + 300);
        queue.put("now", now);
        String first = next(taken);
        String second = next(taken);
        boolean inTime = System.currentTimeMillis() >= now + 300;
        queue.close();
        return first + ", " + second + ", not before its time " + inTime;
    }

    String idQueue() throws Exception {
        BlockingQueue<String> taken = new LinkedBlockingQueue<>();
        DistributedIdQueue<String> putting =
                QueueBuilder.builder(one, null, TEXT, "/id").buildIdQueue();
        putting.start();
        putting.put("kept", "k");
        putting.put("dropped", "d");
        check(putting.flushPuts(PATIENCE_SECONDS, TimeUnit.SECONDS), "the puts do not end");
        int removed = putting.remove("d");
        upToDate(two);
        DistributedIdQueue<String> taking =
                QueueBuilder.builder(two, into(taken), TEXT, "/id").buildIdQueue();
        taking.start();
        String found = next(taken);
        taking.close();
        putting.close();
        return "removed " + removed + ", taken " + found;
    }

    String simpleQueue() throws Exception {
        SimpleDistributedQueue putting = new SimpleDistributedQueue(one, "/simple");
        SimpleDistributedQueue taking = new SimpleDistributedQueue(two, "/simple");
        for (String item : List.of("1", "2", "3")) {
            check(putting.offer(bytes(item)), "it is not put");
        }
        upToDate(two);
        List<String> found = new ArrayList<>();
        found.add(new String(taking.peek(), UTF_8));
        found.add(new String(taking.poll(), UTF_8));
        found.add(new String(taking.remove(), UTF_8));
        found.add(new String(taking.take(), UTF_8));
        found.add(String.valueOf(taking.poll()));
        Future<byte[]> waiting = threads.submit(() -> taking.poll(PATIENCE_SECONDS, TimeUnit.SECONDS));
        putting.offer(bytes("4"));
        found.add(new String(result(waiting), UTF_8));
        return found.toString();
    }

    // Barriers.

    String barrier() throws Exception {
        DistributedBarrier mine = new DistributedBarrier(one, "/barrier");
        mine.setBarrier();
        upToDate(two);
        DistributedBarrier theirs = new DistributedBarrier(two, "/barrier");
        boolean atOnce = theirs.waitOnBarrier(0, TimeUnit.SECONDS);
        Future<Boolean> waiting = threads.submit(() -> theirs.waitOnBarrier(PATIENCE_SECONDS, TimeUnit.SECONDS));
        mine.removeBarrier();
        return "set " + atOnce + ", removed " + result(waiting);
    }

    String doubleBarrier() throws Exception {
        AtomicInteger inside = new AtomicInteger();
        List<Future<String>> workers = new ArrayList<>();
        for (CuratorFramework client : List.of(one, two, two)) {
            workers.add(threads.submit(() -> {
                DistributedDoubleBarrier barrier = new DistributedDoubleBarrier(client, "/double", 3);
                inside.incrementAndGet();
                boolean entered = barrier.enter(PATIENCE_SECONDS, TimeUnit.SECONDS);
                int found = inside.get();
                boolean left = barrier.leave(PATIENCE_SECONDS, TimeUnit.SECONDS);
                return entered + " " + found + " " + left;
            }));
        }
        List<String> found = new ArrayList<>();
        for (Future<String> worker : workers) {
            found.add(result(worker));
        }
        return found.toString();
    }

    // Znodes that come back.

    String persistentNode() throws Exception {
        BlockingQueue<String> created = new LinkedBlockingQueue<>();
        PersistentNode node = new PersistentNode(one, CreateMode.EPHEMERAL, false, "/persistent", bytes("here"));
        node.getListenable().addListener(created::add);
        node.start();
        String first = next(created);
        upToDate(two);
        two.delete().forPath("/persistent");
        String second = next(created);
        upToDate(two);
        String data = new String(two.getData().forPath("/persistent"), UTF_8);
        node.close();
        upToDate(two);
        return first + ", deleted, " + second + " " + data + ", closed " + two.checkExists().forPath("/persistent");
    }

    String persistentTtlNode() throws Exception {
        PersistentTtlNode node = new PersistentTtlNode(one, "/ttl", 3_600_000, bytes("ttl"));
        node.start();
        check(node.waitForInitialCreate(PATIENCE_SECONDS, TimeUnit.SECONDS), "it is not created");
        upToDate(two);
        String data = new String(two.getData().forPath("/ttl"), UTF_8);
        node.close();
        return data;
    }

    String groupMember() throws Exception {
        GroupMember mine = new GroupMember(one, "/group", "one", bytes("1"));
        GroupMember theirs = new GroupMember(two, "/group", "two", bytes("2"));
        mine.start();
        theirs.start();
        while (mine.getCurrentMembers().size() < 2 || theirs.getCurrentMembers().size() < 2) {
            upToDate(one);
        }
        List<String> both = new ArrayList<>(mine.getCurrentMembers().keySet());
        Collections.sort(both);
        theirs.close();
        while (mine.getCurrentMembers().size() > 1) {
            upToDate(one);
        }
        List<String> left = new ArrayList<>(mine.getCurrentMembers().keySet());
        mine.close();
        return both + ", left " + left;
    }

    // Members that are killed, and sessions that end.

    String killedLeader() throws Exception {
        return throughAKill("/killed-leader", "leader");
    }

    /** The member that the first client is at, which only the text of the session tells. */
    String killedMember() throws Exception {
        String session = one.getZookeeperClient().getZooKeeper().toString();
        Matcher host = Pattern.compile("remoteserver:\\S*/(\\S+:\\d+)").matcher(session);
        check(host.find(), session);
        return throughAKill("/killed-member", host.group(1));
    }

    /** A held lock, who waits for it, a number, a cache and an ephemeral, while a member is killed and comes back. */
    String throughAKill(String root, String which) throws Exception {
        InterProcessMutex mine = new InterProcessMutex(one, root + "/lock");
        InterProcessMutex theirs = new InterProcessMutex(two, root + "/lock");
        CountDownLatch filled = new CountDownLatch(1);
        BlockingQueue<String> cached = new LinkedBlockingQueue<>();
        CuratorCache cache = CuratorCache.build(two, root + "/cached");
        cache.listenable().addListener(CuratorCacheListener.builder()
                .forInitialized(filled::countDown)
                .forAll((type, old, data) -> cached.add(text(data)))
                .build());
        PersistentNode node = new PersistentNode(one, CreateMode.EPHEMERAL, false, root + "/here", NOTHING);
        DistributedAtomicLong number =
                new DistributedAtomicLong(one, root + "/number", new RetryNTimes(RETRIES, RETRY_MS));
        one.create().creatingParentsIfNeeded().forPath(root + "/cached/a", bytes("before"));
        upToDate(two);
        cache.start();
        check(filled.await(PATIENCE_SECONDS, TimeUnit.SECONDS), "the cache is not filled");
        node.start();
        check(node.waitForInitialCreate(PATIENCE_SECONDS, TimeUnit.SECONDS), "it is not created");
        check(number.increment().succeeded() && acquired(mine), "before the kill");
        long session = one.getZookeeperClient().getZooKeeper().getSessionId();
        Future<Boolean> waiting = threads.submit(() -> acquired(theirs));
        while (mine.getParticipantNodes().size() < 2) {
            upToDate(one);
        }
        ask("kill " + which);
        one.setData().forPath(root + "/cached/a", bytes("after"));
        boolean tooEarly = waiting.isDone();
        long counted = number.get().postValue();
        mine.release();
        boolean came = result(waiting);
        while (!"after".equals(next(cached))) {}
        ask("start");
        long owner = one.checkExists().forPath(root + "/here").getEphemeralOwner();
        boolean same = one.getZookeeperClient().getZooKeeper().getSessionId() == session && owner == session;
        node.close();
        cache.close();
        return "held " + tooEarly + ", released " + came + ", number " + counted + ", cached after, same session " + same;
    }

    /** Whoever knows a session may take it over and close it: a lost session, and what it takes along. */
    String lostSession() throws Exception {
        BlockingQueue<ConnectionState> states = new LinkedBlockingQueue<>();
        BlockingQueue<String> created = new LinkedBlockingQueue<>();
        CuratorFramework victim = client();
        victim.getConnectionStateListenable().addListener((client, state) -> states.add(state));
        PersistentNode node = new PersistentNode(victim, CreateMode.EPHEMERAL, false, "/lost", NOTHING);
        node.getListenable().addListener(created::add);
        node.start();
        LeaderLatch latch = new LeaderLatch(victim, "/lost-latch", "victim");
        latch.start();
        check(latch.await(PATIENCE_SECONDS, TimeUnit.SECONDS), "it does not lead");
        String first = next(created);
        ZooKeeper taken = victim.getZookeeperClient().getZooKeeper();
        long session = taken.getSessionId();
        while (victim.getZookeeperClient().getZooKeeper().getSessionId() == session) {
            BlockingQueue<KeeperState> told = new LinkedBlockingQueue<>();
            ZooKeeper thief =
                    new ZooKeeper(hosts, SESSION_MS, event -> told.add(event.getState()), session, taken.getSessionPasswd());
            next(told);
            thief.close();
            // A round trip: it is over now, or the victim was faster than the close.
            victim.checkExists().forPath("/lost");
        }
        while (next(states) != ConnectionState.LOST) {}
        while (next(states) != ConnectionState.RECONNECTED) {}
        String second = next(created);
        check(latch.await(PATIENCE_SECONDS, TimeUnit.SECONDS), "it does not lead again");
        long owner = victim.checkExists().forPath("/lost").getEphemeralOwner();
        boolean another = owner != session && owner == victim.getZookeeperClient().getZooKeeper().getSessionId();
        latch.close();
        node.close();
        victim.close();
        return first + ", lost, " + second + ", of another session " + another;
    }
}
