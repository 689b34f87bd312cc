/* The ceiling of the load generator: a server that does nothing but answer.

   echo PORT [FILE]

   Listens on 127.0.0.1 (port 0: any), prints "listening on PORT", accepts every handshake and answers each frame with
   a fixed reply of the size that a real one has: err 0 and a stat, and for getData 100 bytes of data before it. Ends when
   its standard input is closed, so that it never outlives whoever started it.

   With FILE, what comes with one read is written there and synced before it is answered: the least that a durable write
   takes on this machine. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { INPUT = 256 * 1024, OP_GET = 4, STAT = 68, DATA = 100, FRAME_MAX = 2 * 1024 * 1024,
       FILLED_MIB = 32 };

struct connection {
    int socket;
    bool greeted, wants_write;
    uint8_t *input, *output;
    size_t held, unsent, unsent_at, input_size, output_size;
};

static int epoll, file = -1;

static void *grown(void *bytes, size_t *size, size_t needed)
{
    if (needed <= *size)
        return bytes;
    *size = needed * 2;
    bytes = realloc(bytes, *size);
    if (!bytes)
        abort();
    return bytes;
}

static uint32_t get_int(const uint8_t *at)
{
    uint32_t big;
    memcpy(&big, at, 4);
    return ntohl(big);
}

static void put_int(uint8_t *at, uint32_t value)
{
    value = htonl(value);
    memcpy(at, &value, 4);
}

/* Appends the answer to one frame. */
static void answer(struct connection *c, const uint8_t *frame)
{
    uint32_t length;
    c->output = grown(c->output, &c->output_size, c->unsent_at + c->unsent + 256);
    uint8_t *reply = c->output + c->unsent_at + c->unsent;
    memset(reply, 0, 256);
    if (!c->greeted) {
        length = 37; /* version, timeout, session, password, readOnly */
        memcpy(reply + 8, frame + 12, 4);
        put_int(reply + 12, 1);
        put_int(reply + 20, 16);
        c->greeted = true;
    } else {
        bool get = get_int(frame + 4) == OP_GET;
        length = 16 + STAT + (get ? 4 + DATA : 0);
        memcpy(reply + 4, frame, 4); /* xid */
        if (get)
            put_int(reply + 20, DATA);
    }
    put_int(reply, length);
    c->unsent += 4 + length;
}

static void end(struct connection *c)
{
    close(c->socket);
    free(c->input);
    free(c->output);
    free(c);
}

static bool flush(struct connection *c)
{
    while (c->unsent) {
        ssize_t sent = send(c->socket, c->output + c->unsent_at, c->unsent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EAGAIN)
            break;
        if (sent < 0)
            return false;
        c->unsent -= (size_t)sent;
        c->unsent_at = c->unsent ? c->unsent_at + (size_t)sent : 0;
    }
    if (c->wants_write != (c->unsent > 0)) {
        c->wants_write = c->unsent > 0;
        struct epoll_event event = {.events = EPOLLIN | (c->wants_write ? EPOLLOUT : 0), .data.ptr = c};
        epoll_ctl(epoll, EPOLL_CTL_MOD, c->socket, &event);
    }
    return true;
}

static bool serve(struct connection *c)
{
    c->input = grown(c->input, &c->input_size, c->held + INPUT);
    ssize_t got = recv(c->socket, c->input + c->held, INPUT, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN)
        return true;
    if (got <= 0)
        return false;
    if (file >= 0 && c->greeted && (write(file, c->input + c->held, (size_t)got) != got || fdatasync(file))) {
        perror("echo");
        exit(1);
    }
    c->held += (size_t)got;
    size_t at = 0;
    while (c->held - at >= 4) {
        uint32_t length = get_int(c->input + at);
        if (length > FRAME_MAX || length < 8)
            return false;
        if (c->held - at < 4 + length)
            break;
        answer(c, c->input + at + 4);
        at += 4 + length;
    }
    memmove(c->input, c->input + at, c->held - at);
    c->held -= at;
    return flush(c);
}

static void accept_one(int listener)
{
    int on = 1;
    struct connection *c = calloc(1, sizeof *c);
    if (!c || (c->socket = accept(listener, NULL, NULL)) < 0) {
        free(c);
        return;
    }
    setsockopt(c->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(epoll, EPOLL_CTL_ADD, c->socket, &event);
}

/* A sync of what is written over these has no metadata to write: neither a length nor that a block is in use. */
static bool fill_with_zeros(void)
{
    static const uint8_t zeros[1024 * 1024];
    for (int i = 0; i < FILLED_MIB; i++)
        if (write(file, zeros, sizeof zeros) != (ssize_t)sizeof zeros)
            return false;
    return !fsync(file) && !lseek(file, 0, SEEK_SET);
}

int main(int count, char **arguments)
{
    if (count != 2 && count != 3) {
        fprintf(stderr, "usage: echo PORT [FILE]\n");
        return 2;
    }
    if (count == 3 && (file = open(arguments[2], O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) < 0) {
        perror(arguments[2]);
        return 1;
    }
    if (file >= 0 && !fill_with_zeros()) {
        perror(arguments[2]);
        return 1;
    }
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(arguments[1]))};
    socklen_t length = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 1024)) {
        perror("echo");
        return 1;
    }
    getsockname(listener, (struct sockaddr *)&address, &length);
    printf("listening on %d\n", ntohs(address.sin_port));
    fflush(stdout);

    static int the_listener, the_input;
    struct epoll_event events[256], event = {.events = EPOLLIN, .data.ptr = &the_listener};
    epoll = epoll_create1(EPOLL_CLOEXEC);
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    event = (struct epoll_event){.events = EPOLLIN, .data.ptr = &the_input};
    epoll_ctl(epoll, EPOLL_CTL_ADD, STDIN_FILENO, &event);
    for (;;) {
        int ready = epoll_wait(epoll, events, 256, -1);
        for (int i = 0; i < ready; i++) {
            if (events[i].data.ptr == &the_listener) {
                accept_one(listener);
            } else if (events[i].data.ptr == &the_input) {
                char byte;
                if (read(STDIN_FILENO, &byte, 1) <= 0)
                    return 0;
            } else {
                struct connection *c = events[i].data.ptr;
                bool alive = events[i].events & EPOLLOUT ? flush(c) : true;
                if (!(alive && serve(c)))
                    end(c);
            }
        }
    }
}
