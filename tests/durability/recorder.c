/* What a process does to the files of one folder, written down in order, for a power cut to be played afterwards.
 *
 * Preloaded into a process (LD_PRELOAD). RECORDER_FOLDER is the folder it watches, RECORDER_LOG the file it appends to;
 * both are absolute. One event is a header and its bytes:
 *
 *   C inode            name         a file was made
 *   W inode offset     bytes        written
 *   T inode size                    cut or grown to a size
 *   B inode number                  a sync of a file, or of the folder (inode 0), begins
 *   E inode number                  it has ended well: what was written before its beginning is on the disk
 *   U                  name         a name was removed
 *   M                  text         recorder_mark: something happened outside
 *
 * -shm files are shared memory, which a power cut takes away whole: they are left out.
 * recorder_kill_before ends the process with SIGKILL at one of these moments.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))real(#name))

struct header {
    uint32_t kind, length;
    uint64_t inode, offset;
};

static pthread_mutex_t order = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char folder[4096];
static int log_file = -1;
static uint64_t syncs;
static long moments = -1;
static int halfway;

static void *real(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (found == NULL)
        abort();
    return found;
}

static void start(void) {
    const char *watched = getenv("RECORDER_FOLDER"), *path = getenv("RECORDER_LOG");
    if (watched == NULL || path == NULL || strlen(watched) >= sizeof folder)
        return;
    strcpy(folder, watched);
    log_file = REAL(open)(path, O_CREAT | O_APPEND | O_WRONLY | O_CLOEXEC, 0600);
}

static void record(char kind, uint64_t inode, uint64_t offset, const void *bytes, size_t length) {
    struct header header = {kind, length, inode, offset};
    struct iovec parts[] = {{&header, sizeof header}, {(void *)bytes, length}};
    /* One call, so that processes that share a log do not tear each other's events. */
    if (log_file >= 0 && writev(log_file, parts, 2) != (ssize_t)(sizeof header + length))
        abort();
}

/* The name of a path in the watched folder, "" for the folder itself, or NULL for everything else. */
static const char *name_of(const char *path) {
    pthread_once(&once, start);
    size_t length = strlen(folder);
    if (log_file < 0 || strncmp(path, folder, length) != 0)
        return NULL;
    if (path[length] == 0)
        return "";
    size_t rest = strlen(path + length);
    if (path[length] != '/' || (rest > 4 && strcmp(path + length + rest - 4, "-shm") == 0))
        return NULL;
    return path + length + 1;
}

/* Whether a descriptor is of a file in the folder, and its inode; 0 is the folder. */
static int watched(int descriptor, uint64_t *inode) {
    char link[64], path[4096];
    struct stat status;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    const char *name = name_of(path);
    if (name == NULL || fstat(descriptor, &status) != 0)
        return 0;
    *inode = *name ? status.st_ino : 0;
    return 1;
}

/* Whether the process has come to the moment at which it is to be killed. */
static int is_last(void) {
    return moments >= 0 && moments-- == 0;
}

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

void recorder_mark(const char *text) {
    pthread_once(&once, start);
    record('M', 0, 0, text, strlen(text));
}

void recorder_kill_before(long number, int in_the_middle) {
    moments = number;
    halfway = in_the_middle;
}

static int opened(const char *called, const char *path, int flags, mode_t mode) {
    int (*open_it)(const char *, int, ...) = (int (*)(const char *, int, ...))real(called);
    const char *name = flags & O_CREAT ? name_of(path) : NULL;
    struct stat status;
    if (name == NULL)
        return open_it(path, flags, mode);
    pthread_mutex_lock(&order);
    if (is_last())
        die();
    int is_new = stat(path, &status) != 0, descriptor = open_it(path, flags, mode);
    if (descriptor >= 0 && is_new && fstat(descriptor, &status) == 0)
        record('C', status.st_ino, 0, name, strlen(name));
    pthread_mutex_unlock(&order);
    return descriptor;
}

#define OPEN(name)                                   \
    int name(const char *path, int flags, ...) {     \
        va_list arguments;                           \
        va_start(arguments, flags);                  \
        mode_t mode = va_arg(arguments, mode_t);     \
        va_end(arguments);                           \
        return opened(#name, path, flags, mode);     \
    }
OPEN(open)
OPEN(open64)

static ssize_t written(int file, const void *bytes, size_t length, off64_t offset, int at_end) {
    uint64_t inode;
    if (!watched(file, &inode))
        return at_end ? REAL(write)(file, bytes, length) : REAL(pwrite64)(file, bytes, length, offset);
    pthread_mutex_lock(&order);
    if (at_end)
        offset = lseek64(file, 0, SEEK_CUR);
    if (is_last()) {
        if (halfway)
            REAL(pwrite64)(file, bytes, length / 2, offset);
        die();
    }
    ssize_t count = at_end ? REAL(write)(file, bytes, length) : REAL(pwrite64)(file, bytes, length, offset);
    if (count > 0)
        record('W', inode, offset, bytes, count);
    pthread_mutex_unlock(&order);
    return count;
}

ssize_t write(int file, const void *bytes, size_t length) { return written(file, bytes, length, 0, 1); }
ssize_t pwrite(int file, const void *bytes, size_t length, off_t at) { return written(file, bytes, length, at, 0); }
ssize_t pwrite64(int file, const void *bytes, size_t length, off64_t at) { return written(file, bytes, length, at, 0); }

static int sized(int file, off64_t size) {
    uint64_t inode;
    if (!watched(file, &inode))
        return REAL(ftruncate64)(file, size);
    pthread_mutex_lock(&order);
    if (is_last())
        die();
    int failed = REAL(ftruncate64)(file, size);
    if (!failed)
        record('T', inode, size, NULL, 0);
    pthread_mutex_unlock(&order);
    return failed;
}

int ftruncate(int file, off_t size) { return sized(file, size); }
int ftruncate64(int file, off64_t size) { return sized(file, size); }

/* The mutex is not held while the disk works: what others write meanwhile may or may not be on it afterwards. */
static int synced(int file, const char *called) {
    int (*sync_it)(int) = (int (*)(int))real(called);
    uint64_t inode;
    if (!watched(file, &inode))
        return sync_it(file);
    pthread_mutex_lock(&order);
    if (is_last())
        die();
    uint64_t number = ((uint64_t)getpid() << 32) + ++syncs;
    record('B', inode, number, NULL, 0);
    pthread_mutex_unlock(&order);
    int failed = sync_it(file);
    if (!failed)
        record('E', inode, number, NULL, 0);
    return failed;
}

int fsync(int file) { return synced(file, "fsync"); }
int fdatasync(int file) { return synced(file, "fdatasync"); }

int unlink(const char *path) {
    const char *name = name_of(path);
    if (name == NULL)
        return REAL(unlink)(path);
    pthread_mutex_lock(&order);
    if (is_last())
        die();
    int failed = REAL(unlink)(path);
    if (!failed)
        record('U', 0, 0, name, strlen(name));
    pthread_mutex_unlock(&order);
    return failed;
}
