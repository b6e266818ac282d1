/* Preloaded into a node of a trial: the clock of the wall jumps, and the disk fails, on command.
 *
 * TRIAL_SHIM names a file of three 64-bit numbers, which the trial changes while the node runs:
 * nanoseconds that the clock of the wall is ahead, the errno with which writes and syncs of files below
 * TRIAL_DATA fail (0 = they do not), and how often that has happened. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *told;
static const char *below;

__attribute__((constructor)) static void begin(void) {
    const char *file = getenv("TRIAL_SHIM");
    int descriptor;
    below = getenv("TRIAL_DATA");
    if (!file || (descriptor = open(file, O_RDWR)) < 0) return;
    void *found = mmap(NULL, 24, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (found != MAP_FAILED) told = found;
}

static int fails(int descriptor) {
    char link[64], path[4096];
    ssize_t length;
    if (!told || !told[1] || !below) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    if (strncmp(path, below, strlen(below))) return 0;
    told[2]++;
    errno = (int)told[1];
    return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int clock_gettime(clockid_t which, struct timespec *now) {
    static __typeof__(&clock_gettime) real;
    if (!real) real = REAL(clock_gettime);
    int result = real(which, now);
    if (!result && told && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) {
        int64_t at = (int64_t)now->tv_sec * 1000000000 + now->tv_nsec + told[0];
        now->tv_sec = at / 1000000000;
        now->tv_nsec = at % 1000000000;
    }
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec at;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &at)) return -1;
    now->tv_sec = at.tv_sec;
    now->tv_usec = at.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *where) {
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    if (where) *where = at.tv_sec;
    return at.tv_sec;
}

ssize_t pwrite64(int file, const void *from, size_t count, off64_t at) {
    return fails(file) ? -1 : REAL(pwrite64)(file, from, count, at);
}

ssize_t pwrite(int file, const void *from, size_t count, off_t at) {
    return fails(file) ? -1 : REAL(pwrite)(file, from, count, at);
}

ssize_t write(int file, const void *from, size_t count) {
    return fails(file) ? -1 : REAL(write)(file, from, count);
}

int fsync(int file) { return fails(file) ? -1 : REAL(fsync)(file); }

int fdatasync(int file) { return fails(file) ? -1 : REAL(fdatasync)(file); }
