/* What the generators of load share: servers and how to reach them, a clock, latencies, and integers in frames. Each is
   one program of one file, so all of it is static. */

#ifndef FRAMES_H
#define FRAMES_H

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef IP_BIND_ADDRESS_NO_PORT
#define IP_BIND_ADDRESS_NO_PORT 24
#endif

enum { SERVERS_MAX = 64, SOURCES_MAX = 250 };

struct server {
    struct sockaddr_storage address;
    socklen_t length;
    const char *name;
};

static struct server servers[SERVERS_MAX];
static int server_count;

__attribute__((format(printf, 1, 2), noreturn)) static void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", program_invocation_short_name);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* --- Latencies ------------------------------------------------------------------------------------------------------ */

/* 128 steps to each power of two of nanoseconds, so that a quantile is right within a hundredth. */
enum { STEPS = 128, POWERS = 40 };
static uint64_t histogram[POWERS * STEPS];
static uint64_t counted, latency_sum_ns, latency_max_ns;

static void record(uint64_t latency_ns)
{
    uint64_t value = latency_ns ? latency_ns : 1;
    int power = 63 - __builtin_clzll(value);
    uint64_t index = value;
    if (power >= 7)
        index = (uint64_t)(power - 6) * STEPS + ((value >> (power - 7)) - STEPS);
    if (index >= POWERS * STEPS)
        index = POWERS * STEPS - 1;
    histogram[index]++;
    counted++;
    latency_sum_ns += latency_ns;
    if (latency_ns > latency_max_ns)
        latency_max_ns = latency_ns;
}

static double quantile_us(double quantile)
{
    uint64_t wanted = (uint64_t)(quantile * (double)counted), seen = 0;
    for (int index = 0; index < POWERS * STEPS; index++) {
        seen += histogram[index];
        if (seen > wanted) {
            if (index < STEPS)
                return index / 1000.0;
            int power = index / STEPS + 6;
            return (double)((uint64_t)(STEPS + index % STEPS) << (power - 7)) / 1000.0;
        }
    }
    return 0;
}

/* The end of the line of JSON that every generator prints. */
static void print_latencies(double seconds, uint64_t errors)
{
    double mean = counted ? (double)latency_sum_ns / (double)counted / 1000 : 0;
    printf("\"seconds\": %.6f, \"operations\": %llu, \"errors\": %llu, \"per_second\": %.1f, ", seconds,
           (unsigned long long)counted, (unsigned long long)errors, (double)counted / seconds);
    printf("\"p50_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f, \"mean_us\": %.1f}\n", quantile_us(0.5),
           quantile_us(0.99), (double)latency_max_ns / 1000, mean);
}

/* --- Frames --------------------------------------------------------------------------------------------------------- */

static uint8_t *put_int(uint8_t *at, int32_t value)
{
    uint32_t big = htonl((uint32_t)value);
    memcpy(at, &big, 4);
    return at + 4;
}

static int32_t get_int(const uint8_t *at)
{
    uint32_t big;
    memcpy(&big, at, 4);
    return (int32_t)ntohl(big);
}

/* --- Servers -------------------------------------------------------------------------------------------------------- */

/* Reads HOST:PORT[,HOST:PORT...] and returns whether it is that. */
static bool parse_servers(char *list)
{
    for (char *server = strtok(list, ","); server; server = strtok(NULL, ",")) {
        char *colon = strrchr(server, ':');
        struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
        if (!colon || server_count == SERVERS_MAX)
            return false;
        *colon = 0;
        if (getaddrinfo(server, colon + 1, &hints, &found))
            die("%s: unknown host", server);
        memcpy(&servers[server_count].address, found->ai_addr, found->ai_addrlen);
        servers[server_count].name = server;
        servers[server_count++].length = found->ai_addrlen;
        freeaddrinfo(found);
    }
    return server_count > 0;
}

static bool is_loopback(const struct server *server)
{
    const struct sockaddr_in *address = (const struct sockaddr_in *)&server->address;
    return address->sin_family == AF_INET && ntohl(address->sin_addr.s_addr) >> 24 == 127;
}

/* A socket that is connected, or being connected if it does not block; -1 leaves the reason in errno. An address has
   some 28,000 ports for connections to one server: on loopback, what finds none comes from the next address. */
static int connect_to(const struct server *server, int more_type)
{
    static int source;
    int on = 1;
    for (;; source++) {
        int found = socket(server->address.ss_family, SOCK_STREAM | more_type, 0);
        if (found < 0)
            return -1;
        if (source) {
            struct sockaddr_in own = {.sin_family = AF_INET};
            own.sin_addr.s_addr = htonl(INADDR_LOOPBACK + (uint32_t)source);
            setsockopt(found, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
            if (bind(found, (struct sockaddr *)&own, sizeof own))
                die("address %d of loopback: %s", source + 1, strerror(errno));
        }
        setsockopt(found, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (!connect(found, (const struct sockaddr *)&server->address, server->length) || errno == EINPROGRESS)
            return found;
        int reason = errno;
        close(found);
        errno = reason;
        if (reason != EADDRNOTAVAIL || !is_loopback(server) || source == SOURCES_MAX)
            return -1;
    }
}

#endif
