/* ZooKeeper's C client with more watches than one frame holds, when its server ends.

     watches HOSTS

   It sends all of them to its next server at once. A server that closes the connection for that never sees it pass. What
   is printed, and `please …`, are as in client.c. */

#define _POSIX_C_SOURCE 200809L

#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <zookeeper/zookeeper.h>

#define PATIENCE_SECONDS 120
#define TIMEOUT_MS 40000
#define WATCHES 12000
#define PATH 120 /* bytes: 1.4 MB in all */
#define IN_FLIGHT 500

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int connections, answered, created;

static void fail(const char *reason) {
    fprintf(stderr, "%s\n", reason);
    exit(1);
}

static void on_event(zhandle_t *zh, int type, int state, const char *path, void *context) {
    (void)zh, (void)path, (void)context;
    pthread_mutex_lock(&mutex);
    if (type == ZOO_SESSION_EVENT && state == ZOO_CONNECTED_STATE) connections++;
    if (type == ZOO_SESSION_EVENT && state == ZOO_EXPIRED_SESSION_STATE) fail("the session has expired");
    if (type == ZOO_CREATED_EVENT) created++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

static void on_answer(int rc, const struct Stat *stat, const void *data) {
    (void)stat, (void)data;
    if (rc != ZNONODE) fail(zerror(rc));
    pthread_mutex_lock(&mutex);
    answered++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

/* Until there are so many. */
static void await(const int *counted, int many) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_SECONDS;
    pthread_mutex_lock(&mutex);
    while (*counted < many)
        if (pthread_cond_timedwait(&changed, &mutex, &until)) fail("waited too long");
    pthread_mutex_unlock(&mutex);
}

static void please(const char *what, const char *whom) {
    char line[256];
    printf("please %s%s\n", what, whom);
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) fail("nobody answers");
}

static void path_of(char *path, int number) {
    memset(path, 'x', PATH);
    path[sprintf(path, "/absent-%06d", number)] = '-';
    path[PATH] = 0;
}

int main(int count, char **words) {
    char path[PATH + 1], host[INET6_ADDRSTRLEN + 16], text[INET6_ADDRSTRLEN];
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    struct sockaddr_in *found = (struct sockaddr_in *)&address;
    if (count != 2) fail("usage: watches HOSTS");
    signal(SIGPIPE, SIG_IGN);
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    zhandle_t *zh = zookeeper_init(words[1], on_event, TIMEOUT_MS, NULL, NULL, 0);
    if (!zh) fail("zookeeper_init");
    await(&connections, 1);
    for (int number = 0; number < WATCHES; number++) {
        path_of(path, number);
        if (zoo_awexists(zh, path, on_event, NULL, on_answer, NULL)) fail("zoo_awexists");
        await(&answered, number - IN_FLIGHT);
    }
    await(&answered, WATCHES);
    printf("watches: %d\n", WATCHES);

    if (!zookeeper_get_connected_host(zh, (struct sockaddr *)&address, &length)) fail("connected to nobody");
    snprintf(host, sizeof host, "%s:%d", inet_ntop(AF_INET, &found->sin_addr, text, sizeof text), ntohs(found->sin_port));
    please("kill ", host);
    await(&connections, 2);
    for (int end = 0; end < 2; end++) {
        path_of(path, end ? WATCHES - 1 : 0);
        int made = zoo_create(zh, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
        if (made != ZOK) fail(zerror(made));
        await(&created, end + 1);
        printf("event of the %s one: created\n", end ? "last" : "first");
    }
    please("start", "");
    zookeeper_close(zh);
    return 0;
}
