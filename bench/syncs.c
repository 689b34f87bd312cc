/* How often a process makes data durable, and how long it waits for that.

       LD_PRELOAD=syncs.so ZAB_SYNCS=/some/directory program

   Each process has a file there, named by its process id, of two numbers of eight bytes, in the byte order of the machine:
   the calls of fsync and fdatasync, and of writes with RWF_DSYNC, that have returned, and the nanoseconds in them. The
   file is mapped: a reader finds them while the process runs. Linux, for programs that call the C library, as Java and Python do. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct counts {
    _Atomic uint64_t calls, nanoseconds;
};

static struct counts nobody_reads, *counts = &nobody_reads;
static int (*real_fsync)(int), (*real_fdatasync)(int);

__attribute__((constructor)) static void begin(void)
{
    char path[PATH_MAX];
    const char *directory = getenv("ZAB_SYNCS");
    real_fsync = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    if (!directory)
        return;
    snprintf(path, sizeof path, "%s/%d", directory, (int)getpid());
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, sizeof *counts))
        return;
    void *mapped = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED)
        counts = mapped;
    close(file);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void count_since(uint64_t start)
{
    atomic_fetch_add(&counts->nanoseconds, now_ns() - start);
    atomic_fetch_add(&counts->calls, 1);
}

static int timed(int (*sync)(int), int file)
{
    uint64_t start = now_ns();
    int result = sync(file);
    count_since(start);
    return result;
}

int fsync(int file) { return timed(real_fsync, file); }

int fdatasync(int file) { return timed(real_fdatasync, file); }

ssize_t pwritev2(int file, const struct iovec *pieces, int count, off_t offset, int flags)
{
    uint64_t start = now_ns();
    ssize_t result = syscall(SYS_pwritev2, file, pieces, count, offset, 0, flags);
    if (flags & RWF_DSYNC)
        count_since(start);
    return result;
}

ssize_t pwritev64v2(int file, const struct iovec *pieces, int count, off64_t offset, int flags)
{
    return pwritev2(file, pieces, count, offset, flags);
}
