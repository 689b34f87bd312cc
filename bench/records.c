/* A load generator for brokers of a partitioned log: one thread, one epoll, frames of Kafka's protocol made beforehand.

   records --op produce|fetch --topic NAME --leaders HOST:PORT/PARTITION[,HOST:PORT/PARTITION...] [--connections C]
           [--flight F] [--warmup SECONDS] [--seconds SECONDS | --operations N]
           produce: [--records N] [--size BYTES] [--acks -1|1]
           fetch:   [--bytes MAX] [--step OFFSETS] [--end OFFSET]

   C connections are spread round robin over the partitions, each to the broker that leads its partition, and each keeps
   F requests in flight. A produce request (version 7) has one batch of N records, each with a value of so many bytes; a
   fetch request (version 4) asks for at most so many bytes from an offset that goes on by the step, and begins again
   before the end. After a warm-up, replies are counted for the given time, or until each connection has had N of them.

   The frames of a connection form a ring of F slots. A slot is used again only after its reply has come. Replies are
   found by their length prefix; of each, the correlation id and the error are checked and the rest is skipped unread.

   Prints one line of JSON: {"op", "connections", "flight", "bytes", "seconds", "operations", "errors", "per_second",
   "p50_us", "p99_us", "max_us", "mean_us"}; "bytes" are those of the batches sent, or of the replies, while it counted.
   Exit code 1: a connection failed, 2: usage. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/epoll.h>

#include "frames.h"

enum { API_PRODUCE = 0, API_FETCH = 1, PRODUCE_VERSION = 7, FETCH_VERSION = 4, FETCH_WAIT_MS = 500 };
enum { BATCH_HEADER = 61, RECORD_OVERHEAD = 32, FRAME_OVERHEAD = 256, TOPIC_MAX = 128, REPLY_MAX = 40 + TOPIC_MAX };
enum { PARTITIONS_MAX = 64, QUIET_SECONDS = 30, ACK_TIMEOUT_MS = 30000, RECEIVE = 1024 * 1024 };

struct connection {
    int socket;
    int number;
    bool wants_write;
    uint8_t *ring;       /* `flight` frames of `frame` bytes each */
    uint64_t *sent_ns;
    uint64_t begun;      /* requests handed to the kernel, the last perhaps in part */
    uint64_t answered;
    uint64_t limit;      /* no request beyond this number is begun */
    size_t unsent, unsent_at;
    uint32_t skip;       /* bytes of a reply that are still to come and of no interest */
    uint32_t held;       /* bytes of the beginning of a reply that came in part */
    uint8_t reply[REPLY_MAX];
};

static struct {
    const char *op, *topic;
    int connections, flight, records, size, acks, bytes;
    int64_t step, end;
    double warmup, seconds;
    long operations;
} options = {.op = "", .topic = "", .connections = 1, .flight = 1, .records = 1, .size = 100, .acks = 1,
             .bytes = 1024 * 1024, .step = 1, .end = 1, .warmup = 0.5, .seconds = 3};

static int partitions[SERVERS_MAX];
static bool is_produce;
static size_t frame;         /* bytes of a request, with its length prefix */
static size_t batch;         /* of the batch in it */
static size_t offset_at;     /* where the offset of a fetch request is */
static uint32_t reply_head;  /* bytes of a reply up to the error of its partition, that included */
static uint64_t errors, moved_bytes;
static int epoll;

/* --- Frames ------------------------------------------------------------------------------------------------------- */

static uint8_t *put_short(uint8_t *at, int value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
    return at + 2;
}

static uint8_t *put_long(uint8_t *at, int64_t value)
{
    return put_int(put_int(at, (int32_t)(value >> 32)), (int32_t)value);
}

static uint8_t *put_string(uint8_t *at, const char *text)
{
    size_t length = strlen(text);
    memcpy(put_short(at, (int)length), text, length);
    return at + 2 + length;
}

/* A signed number of variable length, as in Protocol Buffers. */
static uint8_t *put_varint(uint8_t *at, int64_t value)
{
    uint64_t rest = ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
    for (; rest >= 128; rest >>= 7)
        *at++ = (uint8_t)(rest | 128);
    *at++ = (uint8_t)rest;
    return at;
}

static uint32_t crc32c(const uint8_t *at, size_t length)
{
    uint32_t crc = ~0u;
    for (; length--; at++) {
        crc ^= *at;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

static uint8_t *put_record(uint8_t *at, int offset)
{
    uint8_t body[RECORD_OVERHEAD], *to = body;
    *to++ = 0; /* attributes */
    to = put_varint(put_varint(put_varint(put_varint(to, 0), offset), -1), options.size);
    size_t before = (size_t)(to - body);
    at = put_varint(at, (int64_t)before + options.size + 1);
    memcpy(at, body, before);
    at += before;
    for (int i = 0; i < options.size; i++)
        *at++ = (uint8_t)('a' + (offset + i) % 26);
    return put_varint(at, 0); /* no headers */
}

/* One batch of version 2, without a producer id. */
static uint8_t *put_batch(uint8_t *start)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t now_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    memset(start, 0, BATCH_HEADER);
    start[16] = 2;
    put_int(start + 23, options.records - 1);
    put_long(put_long(start + 27, now_ms), now_ms);
    put_int(put_short(put_long(start + 43, -1), -1), -1);
    uint8_t *at = put_int(start + 57, options.records);
    for (int i = 0; i < options.records; i++)
        at = put_record(at, i);
    put_int(start + 8, (int32_t)(at - start - 12));
    put_int(start + 17, (int32_t)crc32c(start + 21, (size_t)(at - start - 21)));
    return at;
}

static uint8_t *put_partition(uint8_t *at, int partition)
{
    return put_int(put_int(put_string(put_int(at, 1), options.topic), 1), partition);
}

static size_t put_produce(uint8_t *start, int partition)
{
    uint8_t *at = put_short(put_short(start + 4, API_PRODUCE), PRODUCE_VERSION);
    at = put_string(put_int(at, 0), "records");
    at = put_partition(put_int(put_short(put_short(at, -1), options.acks), ACK_TIMEOUT_MS), partition);
    uint8_t *end = put_batch(at + 4);
    batch = (size_t)(end - at - 4);
    put_int(at, (int32_t)batch);
    return (size_t)(end - start);
}

static size_t put_fetch(uint8_t *start, int partition)
{
    uint8_t *at = put_short(put_short(start + 4, API_FETCH), FETCH_VERSION);
    at = put_string(put_int(at, 0), "records");
    at = put_int(put_int(put_int(put_int(at, -1), FETCH_WAIT_MS), 1), options.bytes);
    *at++ = 0; /* read uncommitted */
    at = put_partition(at, partition);
    offset_at = (size_t)(at - start);
    return (size_t)(put_int(put_long(at, 0), options.bytes) - start);
}

/* All frames that a connection will send; slot n is sent with the correlation id of its request. */
static void make_ring(struct connection *c)
{
    int partition = partitions[c->number % server_count];
    size_t size = FRAME_OVERHEAD + strlen(options.topic);
    if (is_produce)
        size += (size_t)options.records * (size_t)(options.size + RECORD_OVERHEAD);
    uint8_t *first = malloc(size);
    if (!first)
        die("no memory for a frame of %zu bytes", size);
    frame = is_produce ? put_produce(first, partition) : put_fetch(first, partition);
    put_int(first, (int32_t)frame - 4);
    c->ring = malloc(frame * (size_t)options.flight);
    c->sent_ns = calloc((size_t)options.flight, sizeof *c->sent_ns);
    if (!c->ring || !c->sent_ns)
        die("no memory for %d frames", options.flight);
    for (int slot = 0; slot < options.flight; slot++)
        memcpy(c->ring + frame * (size_t)slot, first, frame);
    free(first);
}

static void stamp(struct connection *c, uint8_t *at)
{
    put_int(at + 8, (int32_t)c->begun);
    if (!is_produce)
        put_long(at + offset_at, (int64_t)c->begun * options.step % options.end);
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
static void fill(struct connection *c, uint64_t now)
{
    uint64_t flight = (uint64_t)options.flight;
    for (;;) {
        if (!c->unsent) {
            uint64_t slot = c->begun % flight;
            c->unsent_at = slot * frame;
            for (; slot < flight && c->begun - c->answered < flight && c->begun < c->limit; slot++, c->begun++) {
                stamp(c, c->ring + slot * frame);
                c->sent_ns[slot] = now;
                c->unsent += frame;
            }
            if (!c->unsent)
                break;
        }
        ssize_t sent = send(c->socket, c->ring + c->unsent_at, c->unsent, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno == EAGAIN)
                break;
            die("connection %d: send: %s", c->number, strerror(errno));
        }
        c->unsent -= (size_t)sent;
        c->unsent_at += (size_t)sent;
    }
    watch_writes(c, c->unsent > 0);
}

/* `head`: the beginning of a reply, up to the error of its partition. */
static void take_reply(struct connection *c, const uint8_t *head, uint64_t now, bool counting)
{
    int32_t length = get_int(head);
    uint64_t slot = c->answered % (uint64_t)options.flight;
    if (length + 4 < (int32_t)reply_head || get_int(head + 4) != (int32_t)c->answered || c->answered == c->begun)
        die("connection %d: a reply of %d bytes to request %d where %llu was due", c->number, length, get_int(head + 4),
            (unsigned long long)c->answered);
    int error = head[reply_head - 2] << 8 | head[reply_head - 1];
    if (counting) {
        errors += error != 0;
        moved_bytes += is_produce ? batch : (uint64_t)length;
        record(now - c->sent_ns[slot]);
    }
    c->answered++;
    c->skip = (uint32_t)length + 4 - reply_head;
}

static void receive(struct connection *c, uint8_t *buffer, bool counting)
{
    ssize_t got = recv(c->socket, buffer, RECEIVE, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0)
        die("connection %d: %s", c->number, got ? strerror(errno) : "closed by the broker");
    uint64_t now = now_ns();
    for (uint8_t *at = buffer, *end = buffer + got; at < end;) {
        uint32_t left = (uint32_t)(end - at), wanted = c->skip ? c->skip : reply_head - c->held;
        uint32_t taken = left < wanted ? left : wanted;
        if (c->skip)
            c->skip -= taken;
        else {
            memcpy(c->reply + c->held, at, taken);
            c->held += taken;
            if (c->held == reply_head) {
                c->held = 0;
                take_reply(c, c->reply, now, counting);
            }
        }
        at += taken;
    }
}

static bool all_answered(const struct connection *all)
{
    for (int i = 0; i < options.connections; i++)
        if (all[i].answered < all[i].limit || all[i].skip)
            return false;
    return true;
}

/* Runs until `until_ns`; with 0 until every connection has reached its limit. */
static void run(struct connection *all, uint64_t until_ns, bool counting)
{
    static uint8_t buffer[RECEIVE];
    struct epoll_event events[256];
    uint64_t quiet_since = now_ns();
    for (int i = 0; i < options.connections; i++)
        fill(&all[i], now_ns());
    for (;;) {
        uint64_t now = now_ns();
        if (until_ns ? now >= until_ns && (counted || !counting) : all_answered(all))
            return;
        int count = epoll_wait(epoll, events, 256, 10);
        if (now - quiet_since > QUIET_SECONDS * 1000000000ull)
            die("no reply for %d s", QUIET_SECONDS);
        for (int i = 0; i < count; i++) {
            struct connection *c = events[i].data.ptr;
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
                receive(c, buffer, counting);
                quiet_since = now;
            }
            fill(c, now_ns());
        }
    }
}

static void drain(struct connection *all)
{
    for (int i = 0; i < options.connections; i++)
        all[i].limit = all[i].begun;
    run(all, 0, false);
}

/* --- Options -------------------------------------------------------------------------------------------------------- */

static void usage(void)
{
    fprintf(stderr, "usage: records --op produce|fetch --topic NAME --leaders HOST:PORT/PARTITION[,...]\n"
                    "               [--connections C] [--flight F] [--warmup SECONDS] [--seconds SECONDS | --operations N]\n"
                    "               [--records N] [--size BYTES] [--acks -1|1] [--bytes MAX] [--step OFFSETS] [--end OFFSET]\n");
    exit(2);
}

/* Takes the partitions out of HOST:PORT/PARTITION[,...], and reads the rest. */
static bool parse_leaders(char *list)
{
    char *to = list;
    int count = 0;
    for (char *at = list; *at;) {
        if (*at != '/') {
            *to++ = *at++;
            continue;
        }
        if (count == PARTITIONS_MAX)
            return false;
        partitions[count++] = (int)strtol(at + 1, &at, 10);
        if (*at && *at != ',')
            return false;
    }
    *to = 0;
    return parse_servers(list) && server_count == count;
}

static void parse_options(int count, char **arguments)
{
    for (int i = 1; i + 1 < count; i += 2) {
        const char *name = arguments[i];
        char *value = arguments[i + 1];
        if (!strcmp(name, "--op"))
            options.op = value;
        else if (!strcmp(name, "--topic"))
            options.topic = value;
        else if (!strcmp(name, "--leaders")) {
            if (!parse_leaders(value))
                usage();
        } else if (!strcmp(name, "--connections"))
            options.connections = atoi(value);
        else if (!strcmp(name, "--flight"))
            options.flight = atoi(value);
        else if (!strcmp(name, "--records"))
            options.records = atoi(value);
        else if (!strcmp(name, "--size"))
            options.size = atoi(value);
        else if (!strcmp(name, "--acks"))
            options.acks = atoi(value);
        else if (!strcmp(name, "--bytes"))
            options.bytes = atoi(value);
        else if (!strcmp(name, "--step"))
            options.step = atoll(value);
        else if (!strcmp(name, "--end"))
            options.end = atoll(value);
        else if (!strcmp(name, "--warmup"))
            options.warmup = atof(value);
        else if (!strcmp(name, "--seconds"))
            options.seconds = atof(value);
        else if (!strcmp(name, "--operations"))
            options.operations = atol(value);
        else
            usage();
    }
    is_produce = !strcmp(options.op, "produce");
    size_t topic = strlen(options.topic);
    if (count % 2 == 0 || (!is_produce && strcmp(options.op, "fetch")) || !topic || topic > TOPIC_MAX || !server_count ||
        options.connections < 1 || options.flight < 1 || options.records < 1 || options.size < 0 || options.bytes < 1 ||
        options.step < 1 || options.end < 1 || options.operations < 0 || (options.acks != -1 && options.acks != 1))
        usage();
    reply_head = (uint32_t)(24 + topic + (is_produce ? 0 : 4));
}

int main(int count, char **arguments)
{
    parse_options(count, arguments);
    struct connection *all = calloc((size_t)options.connections, sizeof *all);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!all || epoll < 0)
        die("no memory, or no epoll: %s", strerror(errno));
    for (int i = 0; i < options.connections; i++) {
        struct connection *c = &all[i];
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        c->number = i;
        c->limit = UINT64_MAX;
        c->socket = connect_to(&servers[i % server_count], 0);
        if (c->socket < 0)
            die("connection %d: %s", i, strerror(errno));
        fcntl(c->socket, F_SETFL, fcntl(c->socket, F_GETFL) | O_NONBLOCK);
        epoll_ctl(epoll, EPOLL_CTL_ADD, c->socket, &event);
        make_ring(c);
    }
    if (options.warmup > 0) {
        run(all, now_ns() + (uint64_t)(options.warmup * 1e9), false);
        drain(all);
    }
    for (int i = 0; i < options.connections; i++)
        all[i].limit = options.operations ? all[i].begun + (uint64_t)options.operations : UINT64_MAX;
    uint64_t start = now_ns();
    run(all, options.operations ? 0 : start + (uint64_t)(options.seconds * 1e9), true);
    double seconds = (double)(now_ns() - start) / 1e9;
    printf("{\"op\": \"%s\", \"connections\": %d, \"flight\": %d, \"bytes\": %llu, ", options.op, options.connections,
           options.flight, (unsigned long long)moved_bytes);
    print_latencies(seconds, errors);
    drain(all);
    return 0;
}
