/* ZooKeeper's C client, the library of many threads, doing what applications do with it.

     client [CERTIFICATES] HOSTS

   CERTIFICATES are the files that the library asks for over TLS, where it was built with it (-DHAVE_OPENSSL_H): who vouches
   for servers, the client's certificate, and its key, with commas between.

   Everything is below a root of its own, by the connection string's chroot. Each line says what was seen, and nothing
   that differs between two runs. `please …` asks who runs this for what a client cannot do (tests/rigs/client_programs.py).
   What should not happen ends it with exit code 1 and a reason. */

#define _POSIX_C_SOURCE 200809L

#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <zookeeper/zookeeper.h>

#define ROOT "/c-client"
#define PATIENCE_SECONDS 60
#define TIMEOUT_MS 20000
#define EVENTS 256
#define TEXT 512
#define LARGE 1000000
#define IN_FLIGHT 500

static void fail(const char *format, ...) {
    va_list values;
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    fputc('\n', stderr);
    exit(1);
}

/* A call that has to succeed. */
#define MUST(call)                                                                \
    do {                                                                          \
        int found_ = (call);                                                      \
        if (found_ != ZOK) fail("line %d: %s: %s", __LINE__, #call, zerror(found_)); \
    } while (0)

/* ------------------------------------------------------------------------------------------- what other threads tell */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

struct session {
    zhandle_t *zh;
    int state;      /* of the last session event */
    int connections; /* how often it became connected */
};

struct seen {
    int count;
    char events[EVENTS][TEXT];
};

struct answers {
    int count, failed;
};

static struct timespec in_patience(void) {
    struct timespec then;
    clock_gettime(CLOCK_REALTIME, &then);
    then.tv_sec += PATIENCE_SECONDS;
    return then;
}

/* Waits, with the mutex held and given back, until the condition holds. */
#define UNTIL(condition)                                                                              \
    do {                                                                                              \
        struct timespec then_ = in_patience();                                                        \
        pthread_mutex_lock(&mutex);                                                                   \
        while (!(condition))                                                                          \
            if (pthread_cond_timedwait(&changed, &mutex, &then_)) fail("line %d: %s: in vain", __LINE__, #condition); \
        pthread_mutex_unlock(&mutex);                                                                 \
    } while (0)

static void on_session(zhandle_t *zh, int type, int state, const char *path, void *context) {
    (void)zh, (void)path;
    struct session *session = context;
    if (type != ZOO_SESSION_EVENT) return;
    pthread_mutex_lock(&mutex);
    session->state = state;
    session->connections += state == ZOO_CONNECTED_STATE;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

static const char *type_name(int type) {
    if (type == ZOO_CREATED_EVENT) return "created";
    if (type == ZOO_DELETED_EVENT) return "deleted";
    if (type == ZOO_CHANGED_EVENT) return "changed";
    if (type == ZOO_CHILD_EVENT) return "child";
    if (type == ZOO_NOTWATCHING_EVENT) return "not watching";
    return "other";
}

static void on_watch(zhandle_t *zh, int type, int state, const char *path, void *context) {
    (void)zh, (void)state;
    struct seen *seen = context;
    if (type == ZOO_SESSION_EVENT) return;
    pthread_mutex_lock(&mutex);
    if (seen->count == EVENTS) fail("too many events");
    snprintf(seen->events[seen->count++], TEXT, "%s %s", type_name(type), path);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

static void on_answer(int rc, const void *context) {
    struct answers *answers = (struct answers *)context;
    pthread_mutex_lock(&mutex);
    answers->count++;
    answers->failed += rc != ZOK;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

static void on_string(int rc, const char *value, const void *context) {
    (void)value;
    on_answer(rc, context);
}

static void on_stat(int rc, const struct Stat *stat, const void *context) {
    (void)stat;
    on_answer(rc, context);
}

/* ------------------------------------------------------------------------------------------------------- small words */

static const char *certificates;

static void begin(struct session *session, const char *hosts, const clientid_t *id) {
    memset(session, 0, sizeof *session);
#ifdef HAVE_OPENSSL_H
    if (certificates)
        session->zh = zookeeper_init_ssl(hosts, certificates, on_session, TIMEOUT_MS, id, session, 0);
    else
#endif
        session->zh = zookeeper_init(hosts, on_session, TIMEOUT_MS, id, session, 0);
    if (!session->zh) fail("zookeeper_init");
}

static void join(struct session *session, const char *hosts) {
    begin(session, hosts, NULL);
    UNTIL(session->state == ZOO_CONNECTED_STATE);
}

static void put(struct session *session, const char *path, const char *value) {
    MUST(zoo_create(session->zh, path, value, (int)strlen(value), &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0));
}

static void change(struct session *session, const char *path, const char *value) {
    MUST(zoo_set(session->zh, path, value, (int)strlen(value), -1));
}

static const char *value_of(struct session *session, const char *path, struct Stat *stat) {
    static char value[TEXT];
    int length = TEXT - 1;
    MUST(zoo_get(session->zh, path, 0, value, &length, stat));
    value[length < 0 ? 0 : length] = 0;
    return value;
}

static void bring_up_to_date(struct session *session, const char *path) {
    struct answers answers = {0, 0};
    MUST(zoo_async(session->zh, path, on_string, &answers));
    UNTIL(answers.count == 1);
    if (answers.failed) fail("sync %s", path);
}

static void introduce(struct session *session, const char *scheme, const char *proof) {
    struct answers answers = {0, 0};
    MUST(zoo_add_auth(session->zh, scheme, proof, (int)strlen(proof), on_answer, &answers));
    UNTIL(answers.count == 1);
    printf("auth %s: %s\n", scheme, answers.failed ? "refused" : "accepted");
}

static void say_event(struct seen *seen, int number) {
    UNTIL(seen->count > number);
    printf("event: %s\n", seen->events[number]);
}

static void ask(const char *what) {
    char answer[TEXT];
    printf("please %s\n", what);
    fflush(stdout);
    if (!fgets(answer, TEXT, stdin) || strcmp(answer, "done\n")) fail("nobody does: %s", what);
}

static int compare(const void *one, const void *other) {
    return strcmp(*(char *const *)one, *(char *const *)other);
}

static void say_children(struct session *session, const char *path) {
    struct String_vector names;
    struct Stat stat;
    MUST(zoo_get_children2(session->zh, path, 0, &names, &stat));
    qsort(names.data, (size_t)names.count, sizeof *names.data, compare);
    printf("children of %s:", path);
    for (int each = 0; each < names.count; each++) printf(" %s", names.data[each]);
    printf(" (%d, cversion %d)\n", stat.numChildren, stat.cversion);
    deallocate_String_vector(&names);
}

/* ------------------------------------------------------------------------------------------------------------ znodes */

static void znodes(struct session *one) {
    char path[TEXT];
    struct Stat stat, other;
    MUST(zoo_create2(one->zh, "/a", "one", 3, &ZOO_OPEN_ACL_UNSAFE, 0, path, TEXT, &stat));
    printf("create2: %s version %d length %d\n", path, stat.version, stat.dataLength);
    printf("get: %s\n", value_of(one, "/a", &other));
    if (stat.czxid != other.czxid || stat.ctime != other.ctime) fail("create2 and get have different stats");
    if (stat.czxid != stat.mzxid || stat.czxid != stat.pzxid) fail("a new znode has one zxid");
    MUST(zoo_set2(one->zh, "/a", "three", 5, 0, &stat));
    printf("set2: %s version %d length %d\n", value_of(one, "/a", &other), stat.version, stat.dataLength);
    MUST(zoo_set(one->zh, "/a", NULL, -1, 1));
    MUST(zoo_exists(one->zh, "/a", 0, &stat));
    printf("set to nothing: version %d length %d\n", stat.version, stat.dataLength);
    printf("exists: %s\n", zerror(zoo_exists(one->zh, "/none", 0, &stat)));
    put(one, "/a/b", "");
    printf("create again: %s\n", zerror(zoo_create(one->zh, "/a", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0)));
    printf("create below nothing: %s\n", zerror(zoo_create(one->zh, "/x/y", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0)));
    printf("set with a version that is over: %s\n", zerror(zoo_set(one->zh, "/a", "x", 1, 0)));
    printf("delete with children: %s\n", zerror(zoo_delete(one->zh, "/a", -1)));
    MUST(zoo_delete(one->zh, "/a/b", 0));
    printf("delete with a version that is over: %s\n", zerror(zoo_delete(one->zh, "/a", 1)));
    MUST(zoo_delete(one->zh, "/a", 2));
    printf("delete: %s\n", zerror(zoo_delete(one->zh, "/a", -1)));
}

static void children_and_sequences(struct session *one) {
    char path[TEXT];
    put(one, "/q", "");
    put(one, "/q/b", "");
    put(one, "/q/\xc3\xbc", "");
    for (int each = 0; each < 3; each++) {
        int flags = each == 1 ? ZOO_SEQUENCE | ZOO_EPHEMERAL : ZOO_SEQUENCE;
        MUST(zoo_create(one->zh, "/q/n-", "", 0, &ZOO_OPEN_ACL_UNSAFE, flags, path, TEXT));
        printf("sequence: %s\n", path);
    }
    say_children(one, "/q");
    MUST(zoo_create_ttl(one->zh, "/ttl", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT_WITH_TTL, 3600000, path, TEXT));
    MUST(zoo_create(one->zh, "/container", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_CONTAINER, NULL, 0));
    put(one, "/container/x", "");
    say_children(one, "/");
}

static void large_values(struct session *one, struct session *two) {
    static char sent[LARGE], got[LARGE];
    for (int each = 0; each < LARGE; each++) sent[each] = (char)(each * 31 + each / 256);
    put(one, "/large", "");
    MUST(zoo_set(one->zh, "/large", sent, LARGE, -1));
    bring_up_to_date(two, "/large");
    int length = LARGE;
    MUST(zoo_get(two->zh, "/large", 0, got, &length, NULL));
    printf("a large value: %s\n", length == LARGE && !memcmp(sent, got, LARGE) ? "the same" : "another");
}

static void many_in_flight(struct session *one) {
    struct answers answers = {0, 0};
    struct Stat stat;
    put(one, "/many", "");
    for (int each = 0; each < IN_FLIGHT; each++) MUST(zoo_aset(one->zh, "/many", "x", 1, each, on_stat, &answers));
    UNTIL(answers.count == IN_FLIGHT);
    MUST(zoo_exists(one->zh, "/many", 0, &stat));
    printf("in flight: %d, refused: %d, version: %d\n", answers.count, answers.failed, stat.version);
}

static void transactions(struct session *one) {
    char path[TEXT];
    struct Stat stat;
    zoo_op_t ops[4];
    zoo_op_result_t results[4];
    put(one, "/t", "");
    zoo_create_op_init(&ops[0], "/t/s-", "1", 1, &ZOO_OPEN_ACL_UNSAFE, ZOO_SEQUENCE, path, TEXT);
    zoo_set_op_init(&ops[1], "/t", "set", 3, 0, &stat);
    zoo_check_op_init(&ops[2], "/t", 1);
    zoo_delete_op_init(&ops[3], "/many", -1);
    MUST(zoo_multi(one->zh, 4, ops, results));
    printf("multi: %s version %d, /many: %s\n", path, stat.version, zerror(zoo_exists(one->zh, "/many", 0, &stat)));
    zoo_set_op_init(&ops[0], "/t", "lost", 4, -1, NULL);
    zoo_check_op_init(&ops[1], "/t", 7);
    zoo_delete_op_init(&ops[2], "/t/s-0000000000", -1);
    printf("multi refused: %s", zerror(zoo_multi(one->zh, 3, ops, results)));
    for (int each = 0; each < 3; each++) printf(", %s", zerror(results[each].err));
    printf("; /t is %s\n", value_of(one, "/t", NULL));
}

/* ---------------------------------------------------------------------------------------------- watches and sessions */

static void watches(struct session *one, struct session *two) {
    struct Stat stat;
    struct String_vector names;
    char value[TEXT];
    int length = TEXT;
    static struct seen data, exists, child, never;
    put(one, "/w", "1");
    bring_up_to_date(two, "/");
    MUST(zoo_wget(two->zh, "/w", on_watch, &data, value, &length, NULL));
    if (zoo_wexists(two->zh, "/w/new", on_watch, &exists, &stat) != ZNONODE) fail("/w/new");
    MUST(zoo_wget_children(two->zh, "/w", on_watch, &child, &names));
    deallocate_String_vector(&names);
    change(one, "/w", "2");
    say_event(&data, 0);
    put(one, "/w/new", "");
    say_event(&exists, 0);
    say_event(&child, 0);
    /* Each was for one time. */
    change(one, "/w", "3");
    bring_up_to_date(two, "/");
    MUST(zoo_wexists(two->zh, "/w/new", on_watch, &exists, &stat));
    MUST(zoo_wexists(two->zh, "/w", on_watch, &never, &stat));
    MUST(zoo_remove_watches(two->zh, "/w", ZWATCHTYPE_DATA, on_watch, &never, 0));
    change(one, "/w", "4");
    MUST(zoo_delete(one->zh, "/w/new", -1));
    say_event(&exists, 1);
    bring_up_to_date(two, "/");
    printf("events in all: %d %d %d, removed: %d\n", data.count, exists.count, child.count, never.count);
    printf("remove again: %s\n", zerror(zoo_remove_watches(two->zh, "/w", ZWATCHTYPE_DATA, on_watch, &never, 0)));
}

static void ephemerals(struct session *one, const char *hosts) {
    struct session owner;
    struct Stat stat;
    static struct seen seen;
    join(&owner, hosts);
    MUST(zoo_create(owner.zh, "/e", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, NULL, 0));
    printf("create below an ephemeral: %s\n",
           zerror(zoo_create(owner.zh, "/e/child", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0)));
    bring_up_to_date(one, "/");
    MUST(zoo_wexists(one->zh, "/e", on_watch, &seen, &stat));
    printf("its owner is %s\n", stat.ephemeralOwner == zoo_client_id(owner.zh)->client_id ? "its session" : "another");
    MUST(zookeeper_close(owner.zh));
    say_event(&seen, 0);
}

static void permissions(struct session *one, const char *hosts) {
    struct ACL_vector acl;
    struct Stat stat;
    struct session bob;
    introduce(one, "digest", "bob:secret");
    MUST(zoo_create(one->zh, "/bob", "b", 1, &ZOO_CREATOR_ALL_ACL, 0, NULL, 0));
    MUST(zoo_get_acl(one->zh, "/bob", &acl, &stat));
    printf("acl: %s %s %d\n", acl.data[0].id.scheme, acl.data[0].id.id, acl.data[0].perms);
    join(&bob, hosts);
    bring_up_to_date(&bob, "/");
    printf("set as nobody: %s\n", zerror(zoo_set(bob.zh, "/bob", "x", 1, -1)));
    introduce(&bob, "digest", "bob:secret");
    change(&bob, "/bob", "y");
    MUST(zoo_set_acl(bob.zh, "/bob", 0, &ZOO_READ_ACL_UNSAFE));
    printf("set what is for reading: %s\n", zerror(zoo_set(bob.zh, "/bob", "x", 1, -1)));
    printf("setAcl of what is for reading: %s\n", zerror(zoo_set_acl(bob.zh, "/bob", 0, &ZOO_OPEN_ACL_UNSAFE)));
    deallocate_ACL_vector(&acl);
    introduce(&bob, "nobody", "x");
    UNTIL(bob.state == ZOO_AUTH_FAILED_STATE);
    printf("after that: %s\n", zerror(zoo_exists(bob.zh, "/", 0, &stat)));
    zookeeper_close(bob.zh);
}

static void reads_after_writes(struct session *one, struct session *two) {
    char value[TEXT];
    int late = 0;
    put(one, "/r", "0");
    for (int each = 1; each <= 30; each++) {
        struct session *writer = each % 2 ? one : two, *reader = each % 2 ? two : one;
        snprintf(value, TEXT, "%d", each);
        change(writer, "/r", value);
        bring_up_to_date(reader, "/r");
        late += strcmp(value_of(reader, "/r", NULL), value) != 0;
    }
    printf("late after a sync: %d\n", late);
}

/* The member that a session is at is killed: the session goes on elsewhere, with its ephemerals and watches. */
static void another_member(struct session *one, struct session *two) {
    char request[TEXT], address[INET_ADDRSTRLEN], value[TEXT];
    struct sockaddr_in peer;
    socklen_t size = sizeof peer;
    struct Stat stat;
    int length = TEXT, found;
    static struct seen seen;
    int64_t id = zoo_client_id(two->zh)->client_id;
    MUST(zoo_create(two->zh, "/mine", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, NULL, 0));
    put(two, "/watched", "1");
    MUST(zoo_wget(two->zh, "/watched", on_watch, &seen, value, &length, NULL));
    if (!zookeeper_get_connected_host(two->zh, (struct sockaddr *)&peer, &size)) fail("not connected");
    inet_ntop(AF_INET, &peer.sin_addr, address, sizeof address);
    pthread_mutex_lock(&mutex);
    int before = two->connections;
    pthread_mutex_unlock(&mutex);
    snprintf(request, TEXT, "kill %s:%d", address, ntohs(peer.sin_port));
    ask(request);
    UNTIL(two->connections > before);
    printf("the session is %s\n", zoo_client_id(two->zh)->client_id == id ? "the same" : "another");
    /* The other client may have been there, too, and members may still elect: a lost connection is no refusal. */
    while ((found = zoo_set(one->zh, "/watched", "2", 1, -1)) == ZCONNECTIONLOSS || found == ZOPERATIONTIMEOUT)
        UNTIL(one->state == ZOO_CONNECTED_STATE);
    MUST(found);
    say_event(&seen, 0);
    while ((found = zoo_exists(two->zh, "/mine", 0, &stat)) == ZCONNECTIONLOSS || found == ZOPERATIONTIMEOUT)
        UNTIL(two->state == ZOO_CONNECTED_STATE);
    MUST(found);
    printf("its ephemeral is %s\n", stat.ephemeralOwner == id ? "there" : "another's");
    ask("start");
}

static int is_over(struct session *session) {
    return session->state == ZOO_EXPIRED_SESSION_STATE;
}

/* Whoever knows a session may take it over, and close it: its first client learns that it is over. */
static void the_end_of_a_session(struct session *one, const char *hosts) {
    struct session victim, thief;
    struct Stat stat;
    static struct seen seen;
    int found;
    join(&victim, hosts);
    MUST(zoo_create(victim.zh, "/v", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, NULL, 0));
    bring_up_to_date(one, "/");
    MUST(zoo_wexists(one->zh, "/v", on_watch, &seen, &stat));
    clientid_t id = *zoo_client_id(victim.zh);
    /* A client whose session is taken over comes back at once, and may be faster than the close: then once more. */
    do {
        begin(&thief, hosts, &id);
        UNTIL(thief.state == ZOO_CONNECTED_STATE || is_over(&thief));
        zookeeper_close(thief.zh);
        while ((found = zoo_exists(victim.zh, "/", 0, &stat)) == ZCONNECTIONLOSS || found == ZOPERATIONTIMEOUT)
            UNTIL(victim.state == ZOO_CONNECTED_STATE || is_over(&victim));
    } while (found == ZOK);
    UNTIL(is_over(&victim));
    say_event(&seen, 0);
    printf("the session has expired: %s\n", zerror(is_unrecoverable(victim.zh)));
    zookeeper_close(victim.zh);
}

int main(int count, char **words) {
    struct session whole, one, two;
    char hosts[4 * TEXT];
    if (count != 2 && count != 3) fail("client [CERTIFICATES] HOSTS");
    if (count == 3) certificates = words[1];
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    /* Over TLS the library writes to a connection that has ended. */
    signal(SIGPIPE, SIG_IGN);
    snprintf(hosts, sizeof hosts, "%s%s", words[count - 1], ROOT);
    join(&whole, words[count - 1]);
    put(&whole, ROOT, "");
    MUST(zookeeper_close(whole.zh));
    join(&one, hosts);
    join(&two, hosts);
    znodes(&one);
    children_and_sequences(&one);
    large_values(&one, &two);
    many_in_flight(&one);
    transactions(&one);
    watches(&one, &two);
    ephemerals(&one, hosts);
    permissions(&one, hosts);
    reads_after_writes(&one, &two);
    another_member(&one, &two);
    the_end_of_a_session(&one, hosts);
    MUST(zookeeper_close(two.zh));
    MUST(zookeeper_close(one.zh));
    printf("the end\n");
    return 0;
}
