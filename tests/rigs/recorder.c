/* What a process does to the files below one directory, in the order in which it took effect.
 *
 *     LD_PRELOAD=recorder.so ZAB_RECORD_ROOT=/data ZAB_RECORD=/elsewhere/record program
 *
 * A call that succeeded is one line in the file ZAB_RECORD, written before it returns to the program:
 *
 *     open FILE O_FLAGS PATH            opened for writing; FILE is the inode, which has this number until it is gone
 *     write FILE OFFSET LENGTH          then LENGTH bytes
 *     durable FILE OFFSET LENGTH        the same, of a write with RWF_DSYNC
 *     truncate FILE SIZE, allocate FILE SIZE
 *     fsync FILE, fdatasync FILE        of a file
 *     syncdir PATH                      of a directory
 *     rename OLD NEW, unlink PATH, mkdir PATH
 *
 * Paths are relative to the root, "" the root itself. One call at a time, so a call that is not recorded has not been
 * answered; a process that is killed loses at most that one. Linux, for programs that call the C library.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define FDS_MAX 65536

enum { UNTRACKED, TRACKED_FILE, TRACKED_DIRECTORY };

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
static char kind_of[FDS_MAX];
static char *directory_of[FDS_MAX];
static char root[PATH_MAX];
static size_t root_length;
static int record = -1;

__attribute__((constructor)) static void begin(void) {
    const char *where = getenv("ZAB_RECORD_ROOT"), *file = getenv("ZAB_RECORD");
    if (where == NULL || file == NULL || realpath(where, root) == NULL)
        return;
    root_length = strlen(root);
    record = syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

/* The path below the root, or NULL. The program gives absolute paths. */
static const char *below(const char *path) {
    if (record < 0 || path == NULL || strncmp(path, root, root_length) != 0)
        return NULL;
    if (path[root_length] == '/')
        return path + root_length + 1;
    return path[root_length] == '\0' ? path + root_length : NULL;
}

static void put(const void *bytes, size_t length) {
    const char *at = bytes;
    while (length > 0) {
        long written = syscall(SYS_write, record, at, length);
        if (written <= 0)
            abort();
        at += written;
        length -= written;
    }
}

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...) {
    char line[2 * PATH_MAX + 64];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof line)
        abort();
    put(line, length);
}

static unsigned long inode_of(int fd) {
    struct stat state;
    return fstat(fd, &state) == 0 ? (unsigned long)state.st_ino : 0;
}

static int is_file(int fd) { return record >= 0 && fd >= 0 && fd < FDS_MAX && kind_of[fd] == TRACKED_FILE; }

static int opened(int directory, const char *path, int flags, mode_t mode) {
    const char *name = directory == AT_FDCWD ? below(path) : NULL;
    if (name == NULL)
        return syscall(SYS_openat, directory, path, flags, mode);
    pthread_mutex_lock(&one_at_a_time);
    int fd = syscall(SYS_openat, directory, path, flags, mode);
    int problem = errno;
    if (fd >= FDS_MAX)
        abort();
    if (fd >= 0) {
        struct stat state;
        if (fstat(fd, &state) != 0)
            abort();
        if (S_ISDIR(state.st_mode)) {
            kind_of[fd] = TRACKED_DIRECTORY;
            free(directory_of[fd]);
            directory_of[fd] = strdup(name);
        } else if ((flags & O_ACCMODE) != O_RDONLY) {
            kind_of[fd] = TRACKED_FILE;
            note("open %lu %d %s\n", (unsigned long)state.st_ino, flags, name);
        }
    }
    pthread_mutex_unlock(&one_at_a_time);
    errno = problem;
    return fd;
}

static mode_t mode_of(int flags, va_list arguments) {
    return flags & (O_CREAT | O_TMPFILE) ? (mode_t)va_arg(arguments, int) : 0;
}

#define OPEN(name)                                                  \
    int name(const char *path, int flags, ...) {                    \
        va_list arguments;                                          \
        va_start(arguments, flags);                                 \
        mode_t mode = mode_of(flags, arguments);                    \
        va_end(arguments);                                          \
        return opened(AT_FDCWD, path, flags, mode);                 \
    }
#define OPENAT(name)                                                \
    int name(int directory, const char *path, int flags, ...) {     \
        va_list arguments;                                          \
        va_start(arguments, flags);                                 \
        mode_t mode = mode_of(flags, arguments);                    \
        va_end(arguments);                                          \
        return opened(directory, path, flags, mode);                \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

int close(int fd) {
    if (record >= 0 && fd >= 0 && fd < FDS_MAX)
        kind_of[fd] = UNTRACKED;
    return syscall(SYS_close, fd);
}

static void note_pieces(const char *what, int fd, off_t offset, const struct iovec *pieces, int count, ssize_t length) {
    note("%s %lu %lld %zd\n", what, inode_of(fd), (long long)offset, length);
    for (int piece = 0; piece < count && length > 0; piece++) {
        size_t part = pieces[piece].iov_len < (size_t)length ? pieces[piece].iov_len : (size_t)length;
        put(pieces[piece].iov_base, part);
        length -= part;
    }
}

static ssize_t written(int fd, const struct iovec *pieces, int count, off_t offset, int flags) {
    /* The system call takes the offset in two words; on 64 bits the second is not looked at. */
    if (!is_file(fd))
        return syscall(SYS_pwritev2, fd, pieces, count, offset, 0, flags);
    pthread_mutex_lock(&one_at_a_time);
    ssize_t length = syscall(SYS_pwritev2, fd, pieces, count, offset, 0, flags);
    int problem = errno;
    if (length >= 0)
        note_pieces(flags & RWF_DSYNC ? "durable" : "write", fd, offset, pieces, count, length);
    pthread_mutex_unlock(&one_at_a_time);
    errno = problem;
    return length;
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset) {
    struct iovec piece = {(void *)bytes, length};
    return written(fd, &piece, 1, offset, 0);
}
ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t offset) { return pwrite(fd, bytes, length, offset); }
ssize_t pwritev(int fd, const struct iovec *pieces, int count, off_t offset) {
    return written(fd, pieces, count, offset, 0);
}
ssize_t pwritev64(int fd, const struct iovec *pieces, int count, off64_t offset) {
    return written(fd, pieces, count, offset, 0);
}
ssize_t pwritev2(int fd, const struct iovec *pieces, int count, off_t offset, int flags) {
    return written(fd, pieces, count, offset, flags);
}
ssize_t pwritev64v2(int fd, const struct iovec *pieces, int count, off64_t offset, int flags) {
    return written(fd, pieces, count, offset, flags);
}

/* A write without an offset would need the position of the file: the product does not do that to its data. */
ssize_t write(int fd, const void *bytes, size_t length) {
    if (is_file(fd))
        abort();
    return syscall(SYS_write, fd, bytes, length);
}

/* A call on an open file that says nothing but its name, the file, and perhaps a size. */
static int called(long result, int fd, const char *what, long long size) {
    int problem = errno;
    if (result == 0) {
        if (size >= 0)
            note("%s %lu %lld\n", what, inode_of(fd), size);
        else if (kind_of[fd] == TRACKED_DIRECTORY)
            note("syncdir %s\n", directory_of[fd]);
        else
            note("%s %lu\n", what, inode_of(fd));
    }
    pthread_mutex_unlock(&one_at_a_time);
    errno = problem;
    return result;
}

static int is_tracked(int fd) {
    if (record < 0 || fd < 0 || fd >= FDS_MAX || kind_of[fd] == UNTRACKED)
        return 0;
    pthread_mutex_lock(&one_at_a_time);
    return 1;
}

int fsync(int fd) { return is_tracked(fd) ? called(syscall(SYS_fsync, fd), fd, "fsync", -1) : syscall(SYS_fsync, fd); }
int fdatasync(int fd) {
    return is_tracked(fd) ? called(syscall(SYS_fdatasync, fd), fd, "fdatasync", -1) : syscall(SYS_fdatasync, fd);
}
int ftruncate(int fd, off_t size) {
    return is_tracked(fd) ? called(syscall(SYS_ftruncate, fd, size), fd, "truncate", size)
                          : syscall(SYS_ftruncate, fd, size);
}
int ftruncate64(int fd, off64_t size) { return ftruncate(fd, size); }

/* Returns an error number, as the function of this name does. A file system that cannot allocate is one that refuses. */
int posix_fallocate(int fd, off_t offset, off_t length) {
    int tracked = is_tracked(fd);
    long result = syscall(SYS_fallocate, fd, 0, offset, length);
    if (tracked)
        called(result, fd, "allocate", offset + length);
    return result == 0 ? 0 : errno;
}
int posix_fallocate64(int fd, off64_t offset, off64_t length) { return posix_fallocate(fd, offset, length); }

int rename(const char *old, const char *new) {
    const char *from = below(old), *to = below(new);
    if (from == NULL || to == NULL)
        return syscall(SYS_renameat, AT_FDCWD, old, AT_FDCWD, new);
    pthread_mutex_lock(&one_at_a_time);
    long result = syscall(SYS_renameat, AT_FDCWD, old, AT_FDCWD, new);
    int problem = errno;
    if (result == 0)
        note("rename %s %s\n", from, to);
    pthread_mutex_unlock(&one_at_a_time);
    errno = problem;
    return result;
}

int unlink(const char *path) {
    const char *name = below(path);
    if (name == NULL)
        return syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    pthread_mutex_lock(&one_at_a_time);
    long result = syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    int problem = errno;
    if (result == 0)
        note("unlink %s\n", name);
    pthread_mutex_unlock(&one_at_a_time);
    errno = problem;
    return result;
}

int mkdir(const char *path, mode_t mode) {
    const char *name = below(path);
    if (name == NULL)
        return syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    pthread_mutex_lock(&one_at_a_time);
    long result = syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    int problem = errno;
    if (result == 0)
        note("mkdir %s\n", name);
    pthread_mutex_unlock(&one_at_a_time);
    errno = problem;
    return result;
}
