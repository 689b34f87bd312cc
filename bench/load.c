/* A load generator for servers that speak ZooKeeper's client protocol: one thread, one epoll, frames made beforehand.

   load --servers HOST:PORT[,HOST:PORT...] --op set|get|create|mix|children|multi [--connections C] [--flight F]
        [--size BYTES] [--parts P] [--root PATH] [--keep] [--among N] [--warmup SECONDS]
        [--seconds SECONDS | --operations N] [--tls-ca FILE [--tls-cert FILE [--tls-key FILE]]]

   C connections are spread round robin over the servers; each has its own session and its own znode
   /bench/c<number>, and keeps F requests in flight. `mix` is nine getData to one setData, `multi` P setData of the own
   znode in one request, `children` getChildren of the first connection's znode. `create` makes children of the own
   znode, which are deleted afterwards, outside of the measured time. After a warm-up, replies are counted for the
   given time, one at least, or until each connection has had N of them.

   --root is another place than /bench. With --keep nothing is deleted at the end: `create --keep --operations N` fills
   each connection's znode with N children, and with --among N, `set`, `get` and `mix` go to these, all over the place.

   The frames of a connection form a ring of at least F slots. A slot is used again only after its reply has come, so a
   frame may be changed in place (the sequence number of a create) although the kernel took it only in part. Replies are
   found by their length prefix; of each, xid (they come in order) and err are checked and the rest is skipped unread.

   With --tls-ca all of it is inside of TLS (load_tls.h): servers show a certificate of that authority for the host that
   they are named by. --tls-cert is what the connections show, with its key in the same file or in --tls-key.

   Prints one line of JSON: {"op", "connections", "flight", "size", "seconds", "operations", "errors", "per_second",
   "p50_us", "p99_us", "max_us", "mean_us"}. Errors are replies with err != 0. Exit code 1: a connection failed, 2: usage,
   or no TLS with these files. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>

#include "sessions.h"
#include "load_tls.h"

enum { HEADER = 20, SEQUENCE_DIGITS = 8, MIX_CYCLE = 10, DELETE_FLIGHT = 100, RECEIVE = 256 * 1024 };
enum { PATH_SIZE = 128, SIZE_MAX_BYTES = 8 * 1024 * 1024 };
enum { SESSION_TIMEOUT_MS = 30000, SETUP_SECONDS = 30, QUIET_SECONDS = 30, PING_CHECK_NS = 50000000 };

struct frame {
    uint32_t start;    /* offset in the ring's bytes */
    uint32_t length;   /* with the length prefix */
    uint32_t sequence; /* offset of the sequence digits from the start, 0: none */
};

/* The requests of one connection, repeated endlessly. */
struct ring {
    uint8_t *bytes;
    struct frame *frames;
    uint64_t *sent_ns;
    uint32_t slots;
    uint32_t size;
};

struct connection {
    int socket;
    struct tls *tls;    /* NULL: plain */
    int number;
    bool wants_write;
    struct ring ring;
    uint64_t begun;     /* requests handed to the kernel, the last perhaps in part */
    uint64_t answered;
    uint64_t limit;     /* no request beyond this number is begun */
    uint32_t unsent;    /* bytes of begun requests that the kernel has not taken, and where they start */
    uint32_t unsent_at;
    uint32_t skip;      /* bytes of a reply that are still to come and of no interest */
    uint32_t held;      /* bytes of a header that came in part */
    uint64_t sent_ns;   /* when it sent last, and after how long without that it pings: as any client does */
    uint64_t ping_ns;
    bool pinged;        /* the answer is still to come */
    uint8_t header[HEADER];
};

static struct {
    const char *op;
    int connections, flight, size, parts;
    const char *root;
    bool keeps;
    long among;      /* children of the own znode; 0: the own znode itself */
    double warmup, seconds;
    long operations; /* of each connection; 0: as many as the time allows */
    const char *tls_ca, *tls_cert, *tls_key;
} options = {.op = "set", .connections = 1, .flight = 1, .size = 100, .parts = 10, .root = "/bench", .warmup = 0.5,
             .seconds = 3};

static uint64_t errors;
static int epoll;

/* --- Frames ------------------------------------------------------------------------------------------------------- */

static uint8_t *put_part_header(uint8_t *at, int32_t op, bool is_end)
{
    at = put_int(at, op);
    *at++ = is_end;
    return put_int(at, -1);
}

/* Writes one request with its length prefix and returns its length. */
static uint32_t put_request(uint8_t *start, int32_t xid, int32_t op, const char *path, const uint8_t *value)
{
    uint8_t *at = put_int(put_int(start + 4, xid), op);
    for (int part = 0; op == OP_MULTI && part < options.parts; part++) {
        at = put_part_header(at, OP_SET, false);
        at = put_int(put_bytes(put_bytes(at, path, (int)strlen(path)), value, options.size), -1);
    }
    if (op == OP_MULTI)
        at = put_part_header(at, -1, true);
    else if (path)
        at = put_bytes(at, path, (int)strlen(path));
    if (op == OP_GET || op == OP_CHILDREN)
        *at++ = 0; /* watch */
    if (op == OP_SET || op == OP_CREATE)
        at = put_bytes(at, value, options.size);
    if (op == OP_CREATE)
        at = put_int(put_open_acl(at), 0); /* persistent */
    if (op == OP_SET || op == OP_DELETE)
        at = put_int(at, -1); /* any version */
    put_int(start, (int32_t)(at - start - 4));
    return (uint32_t)(at - start);
}

/* The most bytes that a request takes. */
static size_t request_size(void)
{
    size_t parts = strcmp(options.op, "multi") ? 1 : (size_t)options.parts;
    return 128 + parts * (64 + PATH_SIZE + (size_t)options.size);
}

static void own_path(char *path, int number) { snprintf(path, PATH_SIZE - 16, "%s/c%05d", options.root, number); }

/* 0: there is no such operation. */
static int op_of_slot(const char *op, uint32_t slot, int number)
{
    static const struct { const char *name; int code; } codes[] = {
        {"set", OP_SET}, {"get", OP_GET}, {"create", OP_CREATE}, {"delete", OP_DELETE}, {"children", OP_CHILDREN},
        {"multi", OP_MULTI},
    };
    if (!strcmp(op, "mix"))
        return (slot + (uint32_t)number) % MIX_CYCLE ? OP_GET : OP_SET;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (!strcmp(op, codes[i].name))
            return codes[i].code;
    return 0;
}

/* All frames that connection `number` will send: slot n has xid n + 1. */
static void make_ring(struct ring *ring, const char *op, int number, int flight, const uint8_t *value)
{
    uint32_t slots = (uint32_t)flight;
    if (!strcmp(op, "mix"))
        slots = (slots + MIX_CYCLE - 1) / MIX_CYCLE * MIX_CYCLE;
    ring->bytes = realloc(ring->bytes, slots * request_size());
    ring->frames = realloc(ring->frames, slots * sizeof *ring->frames);
    ring->sent_ns = realloc(ring->sent_ns, slots * sizeof *ring->sent_ns);
    if (!ring->bytes || !ring->frames || !ring->sent_ns)
        die("no memory for %u frames", slots);
    ring->slots = slots;
    ring->size = 0;
    for (uint32_t slot = 0; slot < slots; slot++) {
        char path[PATH_SIZE];
        int op_code = op_of_slot(op, slot, number);
        own_path(path, op_code == OP_CHILDREN ? 0 : number);
        struct frame *frame = &ring->frames[slot];
        frame->sequence = 0;
        if (op_code == OP_CREATE || op_code == OP_DELETE || options.among) {
            frame->sequence = 16 + (uint32_t)strlen(path) + 1;
            strcat(path, "/00000000");
        }
        frame->start = ring->size;
        frame->length = put_request(ring->bytes + ring->size, (int32_t)slot + 1, op_code, path, value);
        ring->size += frame->length;
    }
}

static void put_sequence(uint8_t *at, uint64_t sequence)
{
    for (int digit = SEQUENCE_DIGITS - 1; digit >= 0; digit--, sequence >>= 4)
        at[digit] = "0123456789abcdef"[sequence & 15];
}

/* The child that request `number` of a connection is for: each in its turn, or one of those that are there, in an order
   in which neighbours are far from each other. */
static uint64_t child_of(uint64_t number)
{
    return options.among ? number * 2654435761u % (uint64_t)options.among : number;
}

/* --- One connection, plain or in TLS -------------------------------------------------------------------------------- */

static ssize_t put(struct connection *c, const uint8_t *bytes, size_t length)
{
    return c->tls ? tls_send(c->tls, bytes, length) : send(c->socket, bytes, length, MSG_NOSIGNAL);
}

static ssize_t take(struct connection *c, uint8_t *bytes, size_t size, int flags)
{
    return c->tls ? tls_receive(c->tls, bytes, size) : recv(c->socket, bytes, size, flags);
}

/* Why `put` returned -1, or `take` less than 1. */
static const char *failure(const struct connection *c, ssize_t result)
{
    return !result ? "closed by the server" : c->tls && errno == EPROTO ? tls_reason : strerror(errno);
}

/* --- Setting up: blocking, but all connections at once -------------------------------------------------------------- */

static void send_all(struct connection *c, const uint8_t *bytes, size_t length)
{
    while (length) {
        ssize_t sent = put(c, bytes, length);
        if (sent <= 0)
            die("connection %d: send: %s", c->number, failure(c, sent));
        bytes += sent;
        length -= (size_t)sent;
    }
}

static void receive_all(struct connection *c, uint8_t *bytes, size_t length)
{
    while (length) {
        ssize_t got = take(c, bytes, length, MSG_WAITALL);
        if (got <= 0)
            die("connection %d: %s", c->number, failure(c, got));
        bytes += got;
        length -= (size_t)got;
    }
}

static uint32_t receive_frame(struct connection *c, uint8_t *frame, uint32_t size)
{
    uint8_t prefix[4];
    receive_all(c, prefix, 4);
    uint32_t length = (uint32_t)get_int(prefix);
    if (length > size)
        die("connection %d: bad frame of %u bytes", c->number, length);
    receive_all(c, frame, length);
    return length;
}

static void open_connection(struct connection *c)
{
    const struct server *server = &servers[c->number % server_count];
    struct timeval patience = {.tv_sec = SETUP_SECONDS};
    c->socket = connect_to(server, 0);
    if (c->socket < 0)
        die("connection %d: %s", c->number, strerror(errno));
    setsockopt(c->socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (options.tls_ca && !(c->tls = tls_connect(c->socket, server->name)))
        die("connection %d: TLS with %s: %s", c->number, server->name, tls_reason);
    uint8_t request[CONNECT_REQUEST];
    put_connect_request(request, SESSION_TIMEOUT_MS);
    send_all(c, request, sizeof request);
}

static void finish_handshake(struct connection *c)
{
    uint8_t answer[64];
    uint32_t length = receive_frame(c, answer, sizeof answer);
    if (length < 36 || get_int(answer + 4) <= 0)
        die("connection %d: session refused", c->number);
    c->sent_ns = now_ns();
    c->ping_ns = (uint64_t)get_int(answer + 4) * 1000000u / 3;
}

static void request_all(struct connection *all, int count, int32_t op, bool own, const uint8_t *value, bool may_fail)
{
    uint8_t *request = malloc(request_size()), answer[1024];
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%s", options.root);
    for (int i = 0; i < count; i++) {
        if (own)
            own_path(path, all[i].number);
        send_all(&all[i], request, put_request(request, 1, op, op == OP_CLOSE ? NULL : path, value));
    }
    for (int i = 0; i < count; i++) {
        receive_frame(&all[i], answer, sizeof answer);
        int32_t err = get_int(answer + 12);
        if (err && err != ERR_NODEEXISTS && !may_fail)
            die("connection %d: request %d on %s failed with %d", i, op, path, err);
    }
    free(request);
}

/* --- Running -------------------------------------------------------------------------------------------------------- */

static void watch_writes(struct connection *c, bool wanted)
{
    if (c->wants_write == wanted)
        return;
    struct epoll_event event = {.events = EPOLLIN | (wanted ? EPOLLOUT : 0), .data.ptr = c};
    epoll_ctl(epoll, EPOLL_CTL_MOD, c->socket, &event);
    c->wants_write = wanted;
}

/* Sends what the kernel did not take, then begins requests up to the number in flight, as few calls as the ring allows. */
static void fill(struct connection *c, int flight, uint64_t now)
{
    struct ring *ring = &c->ring;
    for (;;) {
        if (!c->unsent) {
            uint64_t room = (uint64_t)flight - (c->begun - c->answered);
            if (c->begun + room > c->limit)
                room = c->begun < c->limit ? c->limit - c->begun : 0;
            if (!room)
                break;
            uint32_t slot = (uint32_t)(c->begun % ring->slots);
            c->unsent_at = ring->frames[slot].start;
            for (; room && slot < ring->slots; room--, slot++, c->begun++) {
                struct frame *frame = &ring->frames[slot];
                if (frame->sequence)
                    put_sequence(ring->bytes + frame->start + frame->sequence, child_of(c->begun));
                c->unsent += frame->length;
                ring->sent_ns[slot] = now;
            }
        }
        ssize_t sent = put(c, ring->bytes + c->unsent_at, c->unsent);
        if (sent < 0) {
            if (errno == EAGAIN)
                break;
            die("connection %d: send: %s", c->number, failure(c, sent));
        }
        c->unsent -= (uint32_t)sent;
        c->unsent_at += (uint32_t)sent;
        c->sent_ns = now;
    }
    watch_writes(c, c->tls ? tls_wants_write(c->tls, c->unsent > 0) : c->unsent > 0);
}

/* Keeps the sessions of those that are done, or wait for long. */
static void ping_silent(struct connection *all, uint64_t now)
{
    uint8_t request[12];
    put_int(put_int(put_int(request, 8), XID_PING), OP_PING);
    for (int i = 0; i < options.connections; i++) {
        struct connection *c = &all[i];
        if (c->unsent || c->pinged || now - c->sent_ns < c->ping_ns)
            continue;
        ssize_t sent = put(c, request, sizeof request);
        if (sent != sizeof request && !(sent < 0 && errno == EAGAIN))
            die("connection %d: ping: %s", c->number, failure(c, sent));
        c->sent_ns = now;
        c->pinged |= sent > 0;
    }
}

/* Whether it answers a request. */
static bool take_reply(struct connection *c, const uint8_t *header, uint64_t now, bool counting)
{
    int32_t length = get_int(header), xid = get_int(header + 4);
    if (xid == XID_PING && length >= 16) {
        c->skip = (uint32_t)length - 16;
        c->pinged = false;
        return false;
    }
    uint32_t slot = (uint32_t)(c->answered % c->ring.slots);
    if (length < 16 || xid != (int32_t)slot + 1 || c->answered == c->begun)
        die("connection %d: reply of %d bytes with xid %d where %u was due", c->number, length, xid, slot + 1);
    if (get_int(header + 16))
        errors++;
    if (counting)
        record(now - c->ring.sent_ns[slot]);
    c->answered++;
    c->skip = (uint32_t)length - 16;
    return true;
}

static bool take_replies(struct connection *c, const uint8_t *at, const uint8_t *end, uint64_t now, bool counting)
{
    bool is_answered = false;
    while (at < end) {
        size_t left = (size_t)(end - at);
        if (c->skip) {
            uint32_t skipped = left < c->skip ? (uint32_t)left : c->skip;
            at += skipped;
            c->skip -= skipped;
        } else if (!c->held && left >= HEADER) {
            is_answered |= take_reply(c, at, now, counting);
            at += HEADER;
        } else {
            uint32_t missing = HEADER - c->held, taken = left < missing ? (uint32_t)left : missing;
            memcpy(c->header + c->held, at, taken);
            at += taken;
            c->held += taken;
            if (c->held == HEADER) {
                c->held = 0;
                is_answered |= take_reply(c, c->header, now, counting);
            }
        }
    }
    return is_answered;
}

static bool receive(struct connection *c, uint8_t *buffer, bool counting)
{
    bool is_answered = false;
    do {
        ssize_t got = take(c, buffer, RECEIVE, MSG_DONTWAIT);
        if (got < 0 && errno == EAGAIN)
            break;
        if (got <= 0)
            die("connection %d: %s", c->number, failure(c, got));
        is_answered |= take_replies(c, buffer, buffer + got, now_ns(), counting);
    } while (c->tls && tls_holds_more(c->tls));
    return is_answered;
}

static bool all_answered(const struct connection *all)
{
    for (int i = 0; i < options.connections; i++)
        if (all[i].answered < all[i].begun || all[i].begun < all[i].limit || all[i].skip || all[i].pinged)
            return false;
    return true;
}

/* Runs until `until_ns`, and until there is something to count if told to count; with until_ns 0 until every connection has reached its limit. */
static void run(struct connection *all, int flight, uint64_t until_ns, bool counting)
{
    static uint8_t buffer[RECEIVE];
    struct epoll_event events[256];
    uint64_t quiet_since = now_ns(), ping_at = quiet_since;
    for (int i = 0; i < options.connections; i++)
        fill(&all[i], flight, now_ns());
    for (;;) {
        uint64_t now = now_ns();
        if (until_ns ? now >= until_ns && (counted || !counting) : all_answered(all))
            return;
        int count = epoll_wait(epoll, events, 256, 10);
        if (now - quiet_since > QUIET_SECONDS * 1000000000ull)
            die("no reply for %d s", QUIET_SECONDS);
        if (now >= ping_at) {
            ping_silent(all, now);
            ping_at = now + PING_CHECK_NS;
        }
        for (int i = 0; i < count; i++) {
            struct connection *c = events[i].data.ptr;
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR) || (c->tls && tls_receives_when_writable(c->tls)))
                quiet_since = receive(c, buffer, counting) ? now : quiet_since;
            fill(c, flight, now_ns());
        }
    }
}

/* Lets the replies come that are still due, beginning nothing. */
static void drain(struct connection *all, int flight)
{
    for (int i = 0; i < options.connections; i++)
        all[i].limit = all[i].begun;
    run(all, flight, 0, false);
}

static void delete_created(struct connection *all, const uint8_t *value)
{
    for (int i = 0; i < options.connections; i++) {
        struct connection *c = &all[i];
        uint64_t created = c->answered;
        make_ring(&c->ring, "delete", c->number, DELETE_FLIGHT, value);
        c->begun = c->answered = 0;
        c->limit = created;
    }
    run(all, DELETE_FLIGHT, 0, false);
}

static void set_blocking(struct connection *all, bool blocking)
{
    for (int i = 0; i < options.connections; i++) {
        int flags = fcntl(all[i].socket, F_GETFL);
        fcntl(all[i].socket, F_SETFL, blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
    }
}

static void print_result(double seconds)
{
    printf("{\"op\": \"%s\", \"connections\": %d, \"flight\": %d, \"size\": %d, ", options.op, options.connections,
           options.flight, options.size);
    print_latencies(seconds, errors);
}

/* --- Options -------------------------------------------------------------------------------------------------------- */

static void usage(void)
{
    fprintf(stderr, "usage: load --servers HOST:PORT[,...] --op set|get|create|mix|children|multi [--connections C]\n"
                    "            [--flight F] [--size BYTES] [--parts P] [--root PATH] [--keep] [--among N]\n"
                    "            [--warmup SECONDS] [--seconds SECONDS | --operations N]\n"
                    "            [--tls-ca FILE [--tls-cert FILE [--tls-key FILE]]]\n");
    exit(2);
}

static void parse_options(int count, char **arguments)
{
    for (int i = 1; i < count; i++) {
        const char *name = arguments[i];
        if (!strcmp(name, "--keep")) {
            options.keeps = true;
            continue;
        }
        char *value = arguments[++i];
        if (i == count)
            usage();
        if (!strcmp(name, "--servers")) {
            if (!parse_servers(value))
                usage();
        } else if (!strcmp(name, "--op"))
            options.op = value;
        else if (!strcmp(name, "--connections"))
            options.connections = atoi(value);
        else if (!strcmp(name, "--flight"))
            options.flight = atoi(value);
        else if (!strcmp(name, "--size"))
            options.size = atoi(value);
        else if (!strcmp(name, "--parts"))
            options.parts = atoi(value);
        else if (!strcmp(name, "--root"))
            options.root = value;
        else if (!strcmp(name, "--among"))
            options.among = atol(value);
        else if (!strcmp(name, "--warmup"))
            options.warmup = atof(value);
        else if (!strcmp(name, "--seconds"))
            options.seconds = atof(value);
        else if (!strcmp(name, "--operations"))
            options.operations = atol(value);
        else if (!strcmp(name, "--tls-ca"))
            options.tls_ca = value;
        else if (!strcmp(name, "--tls-cert"))
            options.tls_cert = value;
        else if (!strcmp(name, "--tls-key"))
            options.tls_key = value;
        else
            usage();
    }
    bool takes_children = !strcmp(options.op, "set") || !strcmp(options.op, "get") || !strcmp(options.op, "mix");
    if (!op_of_slot(options.op, 0, 0) || !strcmp(options.op, "delete") || !server_count || options.connections < 1 ||
        options.connections > 99999 || options.flight < 1 || options.flight > 100000 || options.size < 0 ||
        options.size > SIZE_MAX_BYTES || options.parts < 1 || options.parts > 1000 || options.root[0] != '/' ||
        strlen(options.root) > PATH_SIZE / 2 || options.among < 0 || (options.among && !takes_children) ||
        options.seconds <= 0 || options.warmup < 0 || options.operations < 0 || (options.tls_cert && !options.tls_ca) ||
        (options.tls_key && !options.tls_cert))
        usage();
}

static void prepare_tls(void)
{
    const char *key = options.tls_key ? options.tls_key : options.tls_cert;
    const char *reason = tls_prepare(options.tls_ca, options.tls_cert, key);
    if (reason) {
        fprintf(stderr, "load: %s\n", reason);
        exit(2);
    }
}

int main(int count, char **arguments)
{
    parse_options(count, arguments);
    if (options.tls_ca)
        prepare_tls();
    struct connection *all = calloc((size_t)options.connections, sizeof *all);
    uint8_t *value = malloc((size_t)options.size + 1);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!all || !value || epoll < 0)
        die("setting up: %s", strerror(errno));
    memset(value, 'x', (size_t)options.size);
    for (int i = 0; i < options.connections; i++) {
        all[i].number = i;
        all[i].limit = UINT64_MAX;
        open_connection(&all[i]);
    }
    for (int i = 0; i < options.connections; i++)
        finish_handshake(&all[i]);
    request_all(all, 1, OP_CREATE, false, value, false);
    request_all(all, options.connections, OP_CREATE, true, value, false);
    for (int i = 0; i < options.connections; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &all[i]};
        make_ring(&all[i].ring, options.op, i, options.flight, value);
        epoll_ctl(epoll, EPOLL_CTL_ADD, all[i].socket, &event);
    }
    set_blocking(all, false);

    if (options.warmup > 0)
        run(all, options.flight, now_ns() + (uint64_t)(options.warmup * 1e9), false);
    if (options.operations)
        drain(all, options.flight);
    errors = 0;
    uint64_t start = now_ns();
    if (options.operations) {
        for (int i = 0; i < options.connections; i++)
            all[i].limit = all[i].begun + (uint64_t)options.operations;
        run(all, options.flight, 0, true);
    } else
        run(all, options.flight, start + (uint64_t)(options.seconds * 1e9), true);
    double seconds = (double)(now_ns() - start) / 1e9;
    uint64_t errors_counted = errors;
    drain(all, options.flight);
    if (!strcmp(options.op, "create") && !options.keeps)
        delete_created(all, value);
    errors = errors_counted;

    set_blocking(all, true);
    if (!options.keeps) {
        request_all(all, options.connections, OP_DELETE, true, value, true);
        request_all(all, 1, OP_DELETE, false, value, true);
    }
    request_all(all, options.connections, OP_CLOSE, false, value, true);
    print_result(seconds);
    return 0;
}
