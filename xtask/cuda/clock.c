// A clock that stands still, so that CubeCL's tuning finds all kernels equally fast and takes the first one: the same one
// on every machine. Without it, counts of launches would depend on noise.
//
// Kernels that are known for being slow move it: by a millisecond those of convolutions that are computed directly, off the
// tensor cores, and by half of that the one that adds up the columns of a product, the second step of a transposed
// convolution. Tuning finds them slow on a GPU too, and they are the first candidates.
//
// It takes the place of libc's if the library is preloaded and kernels do not run. It ticks once in 2^40 ns, about 18 minutes, since loops that wait
// for a time must end; one sample of a tuning that spans a tick does not change its median and minimum.
#define _GNU_SOURCE
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "emulation.h"
#include "stand_in.h"

enum { TICK_NANOSECONDS_LOG2 = 40, NANOSECONDS = 1000000000 };

static _Atomic uint64_t slow_nanoseconds;

void clock_launched(const char *entry) {
    if (strstr(entry, "direct_conv") || strstr(entry, "conv_transpose2d_direct")) atomic_fetch_add(&slow_nanoseconds, 1000000);
    if (strstr(entry, "col2im")) atomic_fetch_add(&slow_nanoseconds, 500000);
}

uint64_t clock_of_slow_kernels(void) { return atomic_load(&slow_nanoseconds); }

EXPORT int clock_gettime(clockid_t clock, struct timespec *time) {
    int failed = (int)syscall(SYS_clock_gettime, clock, time);
    if (failed || clock != CLOCK_MONOTONIC || kernels_run()) return failed;
    uint64_t now = (uint64_t)time->tv_sec * NANOSECONDS + (uint64_t)time->tv_nsec;
    uint64_t tick = now >> TICK_NANOSECONDS_LOG2 << TICK_NANOSECONDS_LOG2;
    tick += atomic_load(&slow_nanoseconds);
    time->tv_sec = (time_t)(tick / NANOSECONDS);
    time->tv_nsec = (long)(tick % NANOSECONDS);
    return 0;
}
