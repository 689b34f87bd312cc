/* A generator for what many sessions cost while they do little: they wait for a change, they come and go, or they idle.

   crowd --servers HOST:PORT[,HOST:PORT...] --op watch|recursive|sessions|idle [--connections C] [--warmup SECONDS]
         [--seconds SECONDS | --operations N] [--timeout MS]

   watch      C sessions watch one znode, and another session changes it. An operation lasts from the call that sends
              the change until the last of them has its event. Then all of them watch again, outside of the measured time.
   recursive  the same, but each has added one recursive watch to the parent of the znode, which stays.
   sessions   C at a time are opened and closed, each with a connection of its own. An operation lasts from the connect
              until the session is known to be closed.
   idle       C sessions do nothing but ping. An operation is a ping with its answer. It says "ready" when all are open,
              and ends when its standard input does.

   The sessions are spread round robin over the servers; the one that changes is at the first server. All but those that
   come and go ping once in a third of their timeout, evenly spread, whatever else they do. Prints one line of
   JSON: {"op", "connections", "seconds", "operations", "errors", "per_second", "p50_us", "p99_us", "max_us", "mean_us"},
   where the times are those of operations. Exit code 1: a connection or a request failed, 2: usage. */

#define _GNU_SOURCE
#include "sessions.h"
#include <sys/epoll.h>

enum { HEADER = 20, RECEIVE = 64 * 1024, REQUEST_MAX = 128, XID_EVENT = -1, XID = 1 };
enum { DATA = 100, QUIET_SECONDS = 60, RECURSIVE = 1 };

static const char PARENT[] = "/crowd", ZNODE[] = "/crowd/znode";

enum state { CLOSED, OPENING, OPEN, CLOSING };

struct session {
    int socket, number;
    enum state state;
    uint32_t held, skip;  /* bytes of a header that came in part; bytes of a frame that are of no interest */
    uint8_t header[HEADER];
    uint64_t since_ns;
};

static struct {
    const char *op;
    int connections, timeout_ms;
    long operations; /* 0: as many as the time allows */
    double warmup, seconds;
} options = {.op = "", .connections = 1, .timeout_ms = 15000, .warmup = 0.5, .seconds = 3};

static int epoll, open_count, pending, events; /* pending: replies that are due, but for those to pings */
static int negotiated_ms;
static uint64_t first_ping_ns, pinged; /* 0: not yet; how many sessions have had their turn since */
static bool counting, ended;
static uint64_t last_event_ns, failed;

/* --- Requests ------------------------------------------------------------------------------------------------------- */

static void send_frame(struct session *s, uint8_t *start, const uint8_t *end)
{
    put_int(start, (int32_t)(end - start - 4));
    /* The kernel holds far more than one request of each. */
    if (send(s->socket, start, (size_t)(end - start), MSG_NOSIGNAL) != end - start)
        die("session %d: send: %s", s->number, strerror(errno));
}

static void request(struct session *s, int32_t op, const char *path)
{
    static const uint8_t data[DATA];
    uint8_t frame[REQUEST_MAX + DATA], *at = put_int(put_int(frame + 4, XID), op);
    if (path)
        at = put_bytes(at, path, (int)strlen(path));
    if (op == OP_GET)
        *at++ = 1; /* watch */
    if (op == OP_SET || op == OP_CREATE)
        at = put_bytes(at, data, DATA);
    if (op == OP_CREATE)
        at = put_int(put_open_acl(at), 0); /* persistent */
    if (op == OP_SET || op == OP_DELETE)
        at = put_int(at, -1); /* any version */
    if (op == OP_ADD_WATCH)
        at = put_int(at, RECURSIVE);
    pending++;
    send_frame(s, frame, at);
}

static void ping(struct session *s, uint64_t now)
{
    uint8_t frame[12];
    s->since_ns = now;
    send_frame(s, frame, put_int(put_int(frame + 4, XID_PING), OP_PING));
}

static void begin(struct session *s, uint64_t now)
{
    uint8_t frame[CONNECT_REQUEST];
    s->since_ns = now;
    s->held = s->skip = 0;
    s->socket = connect_to(&servers[s->number % server_count], 0);
    if (s->socket < 0)
        die("session %d: %s", s->number, strerror(errno));
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = s};
    epoll_ctl(epoll, EPOLL_CTL_ADD, s->socket, &event);
    put_connect_request(frame, options.timeout_ms);
    s->state = OPENING;
    send_frame(s, frame, frame + sizeof frame);
}

static void finish(struct session *s)
{
    s->state = CLOSING;
    request(s, OP_CLOSE, NULL);
}

/* --- Replies -------------------------------------------------------------------------------------------------------- */

/* Whether the session is there to receive more. */
static bool take_frame(struct session *s, const uint8_t *header, uint64_t now)
{
    int32_t xid = get_int(header + 4), err = get_int(header + 16);
    s->skip = (uint32_t)get_int(header) - (HEADER - 4);
    if (s->state == OPENING) {
        negotiated_ms = get_int(header + 8);
        if (negotiated_ms <= 0)
            die("session %d: refused", s->number);
        s->state = OPEN;
        open_count++;
        if (!first_ping_ns)
            first_ping_ns = now;
        if (!strcmp(options.op, "sessions"))
            finish(s);
    } else if (xid == XID_EVENT) {
        events++;
        last_event_ns = now;
    } else if (xid == XID_PING) {
        if (counting && !strcmp(options.op, "idle"))
            record(now - s->since_ns);
    } else if (xid == XID) {
        pending--;
        if (err && err != ERR_NODEEXISTS)
            failed++;
        if (s->state == CLOSING) {
            if (counting && !strcmp(options.op, "sessions"))
                record(now - s->since_ns);
            close(s->socket);
            s->state = CLOSED;
            open_count--;
            return false;
        }
    } else
        die("session %d: a reply with xid %d", s->number, xid);
    return true;
}

static void receive(struct session *s, uint64_t now)
{
    static uint8_t buffer[RECEIVE];
    ssize_t got = recv(s->socket, buffer, RECEIVE, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0)
        die("session %d: %s", s->number, got ? strerror(errno) : "closed by the server");
    for (uint8_t *at = buffer, *end = buffer + got; at < end;) {
        uint32_t left = (uint32_t)(end - at), wanted = s->skip ? s->skip : HEADER - s->held;
        uint32_t taken = left < wanted ? left : wanted;
        if (s->skip)
            s->skip -= taken;
        else {
            memcpy(s->header + s->held, at, taken);
            s->held += taken;
        }
        at += taken;
        if (s->held == HEADER) {
            s->held = 0;
            if (!take_frame(s, s->header, now))
                return;
        }
    }
}

/* Each has its turn in each third of the timeout, by its number, whether it is open by then or not. */
static void ping_those_due(struct session *all, uint64_t now)
{
    double period_ns = negotiated_ms / 3.0 * 1e6 / options.connections;
    for (; (double)pinged * period_ns <= (double)(now - first_ping_ns); pinged++) {
        struct session *s = &all[pinged % (uint64_t)options.connections];
        if (s->state == OPEN)
            ping(s, now);
    }
}

/* Takes what has come, waiting for it at most so long. */
static void turn(struct session *all, int wait_ms)
{
    static uint64_t quiet_since;
    struct epoll_event ready[256];
    int count = epoll_wait(epoll, ready, 256, wait_ms);
    uint64_t now = now_ns();
    if (count || !quiet_since)
        quiet_since = now;
    else if (now - quiet_since > QUIET_SECONDS * 1000000000ull)
        die("no reply for %d s", QUIET_SECONDS);
    for (int i = 0; i < count; i++) {
        if (!ready[i].data.ptr) {
            char byte;
            ended = read(STDIN_FILENO, &byte, 1) <= 0;
        } else
            receive(ready[i].data.ptr, now);
    }
    if (first_ping_ns && strcmp(options.op, "sessions"))
        ping_those_due(all, now_ns());
}

static void wait_for_replies(struct session *all)
{
    while (pending)
        turn(all, 10);
    if (failed)
        die("%llu requests failed", (unsigned long long)failed);
}

static void open_all(struct session *all, int count)
{
    for (int i = 0; i < count; i++) {
        begin(&all[i], now_ns());
        if (i % 64 == 0)
            turn(all, 0);
    }
    while (open_count < count)
        turn(all, 10);
}

static void close_all(struct session *all, int count)
{
    for (int i = 0; i < count; i++)
        finish(&all[i]);
    wait_for_replies(all);
}

/* --- Watches -------------------------------------------------------------------------------------------------------- */

static void each_requests(struct session *all, int32_t op, const char *path)
{
    for (int i = 0; i < options.connections; i++)
        request(&all[i], op, path);
    wait_for_replies(all);
}

/* There is one operation at least. */
static bool is_enough(double seconds)
{
    return options.operations ? counted >= (uint64_t)options.operations : counted && seconds >= options.seconds;
}

static void change(struct session *all, struct session *writer)
{
    events = 0;
    uint64_t start = now_ns();
    request(writer, OP_SET, ZNODE);
    while (pending || events < options.connections)
        turn(all, 10);
    if (counting)
        record(last_event_ns - start);
}

static double run_watches(struct session *all, bool recursive)
{
    struct session *writer = &all[options.connections];
    open_all(all, options.connections + 1);
    request(writer, OP_CREATE, PARENT);
    request(writer, OP_CREATE, ZNODE);
    wait_for_replies(all);
    /* Every server has them then. */
    each_requests(all, OP_SYNC, ZNODE);
    if (recursive)
        each_requests(all, OP_ADD_WATCH, PARENT);
    uint64_t start = now_ns(), measured_ns = 0;
    for (;;) {
        uint64_t now = now_ns();
        if (!counting && now - start >= options.warmup * 1e9)
            counting = true;
        if (counting && is_enough((double)measured_ns / 1e9))
            break;
        if (!recursive)
            each_requests(all, OP_GET, ZNODE);
        change(all, writer);
        measured_ns += counting ? now_ns() - now : 0;
    }
    close_all(all, options.connections);
    request(writer, OP_DELETE, ZNODE);
    request(writer, OP_DELETE, PARENT);
    wait_for_replies(all);
    finish(writer);
    wait_for_replies(all);
    return (double)measured_ns / 1e9;
}

/* --- Sessions ------------------------------------------------------------------------------------------------------- */

static bool opening_or_open(const struct session *all)
{
    for (int i = 0; i < options.connections; i++)
        if (all[i].state != CLOSED)
            return true;
    return false;
}

static double run_sessions(struct session *all)
{
    uint64_t start = now_ns();
    for (;;) {
        uint64_t now = now_ns();
        double since = (double)(now - start) / 1e9;
        if (!counting && since >= options.warmup) {
            counting = true;
            start = now;
        } else if (counting && is_enough(since))
            break;
        for (int i = 0; i < options.connections; i++)
            if (all[i].state == CLOSED)
                begin(&all[i], now_ns());
        turn(all, 10);
    }
    double seconds = (double)(now_ns() - start) / 1e9;
    counting = false;
    while (pending || opening_or_open(all))
        turn(all, 10);
    return seconds;
}

static double run_idle(struct session *all)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    open_all(all, options.connections);
    printf("ready\n");
    fflush(stdout);
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, STDIN_FILENO, &event))
        die("standard input: %s", strerror(errno));
    uint64_t start = now_ns();
    for (counting = true; !ended;)
        turn(all, 1);
    double seconds = (double)(now_ns() - start) / 1e9;
    close_all(all, options.connections);
    return seconds;
}

/* --- Options -------------------------------------------------------------------------------------------------------- */

static void usage(void)
{
    fprintf(stderr, "usage: crowd --servers HOST:PORT[,...] --op watch|recursive|sessions|idle [--connections C]\n"
                    "             [--warmup SECONDS] [--seconds SECONDS | --operations N] [--timeout MS]\n");
    exit(2);
}

static void parse_options(int count, char **arguments)
{
    for (int i = 1; i < count; i += 2) {
        const char *name = arguments[i];
        char *value = arguments[i + 1];
        if (i + 1 == count)
            usage();
        if (!strcmp(name, "--servers")) {
            if (!parse_servers(value))
                usage();
        } else if (!strcmp(name, "--op"))
            options.op = value;
        else if (!strcmp(name, "--connections"))
            options.connections = atoi(value);
        else if (!strcmp(name, "--warmup"))
            options.warmup = atof(value);
        else if (!strcmp(name, "--seconds"))
            options.seconds = atof(value);
        else if (!strcmp(name, "--operations"))
            options.operations = atol(value);
        else if (!strcmp(name, "--timeout"))
            options.timeout_ms = atoi(value);
        else
            usage();
    }
    bool known = !strcmp(options.op, "watch") || !strcmp(options.op, "recursive") || !strcmp(options.op, "sessions") ||
                 !strcmp(options.op, "idle");
    if (!known || !server_count || options.connections < 1 || options.connections > 99999 || options.seconds <= 0 ||
        options.warmup < 0 || options.operations < 0 || options.timeout_ms < 1)
        usage();
}

int main(int count, char **arguments)
{
    parse_options(count, arguments);
    struct session *all = calloc((size_t)options.connections + 1, sizeof *all);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!all || epoll < 0)
        die("setting up: %s", strerror(errno));
    for (int i = 0; i < options.connections; i++)
        all[i].number = i;
    double seconds = !strcmp(options.op, "sessions") ? run_sessions(all)
                     : !strcmp(options.op, "idle")   ? run_idle(all)
                                                     : run_watches(all, !strcmp(options.op, "recursive"));
    printf("{\"op\": \"%s\", \"connections\": %d, ", options.op, options.connections);
    print_latencies(seconds, failed);
    return 0;
}
