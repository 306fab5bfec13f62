// Runs kernels on the CPU: one block after the other, each thread of a block a fiber that runs until it must wait for others.
//
// Fibers are made by makecontext and switched by _setjmp and _longjmp, which ask nothing of the operating system. A thread that
// never waits leaves its fiber to the next one, so kernels without barriers run on one stack.
//
// Threads run in the order of their numbers in blocks of even number, and in the opposite order in the others: what
// depends on an order that CUDA does not promise gives results that differ. Shared memory is NaN until it is written.
#undef _FORTIFY_SOURCE // it takes jumps between stacks for mistakes
#define _GNU_SOURCE
#include "emulation.h"

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "stand_in.h"

enum { MAX_THREADS = 1024, MAX_WARPS = MAX_THREADS / WARP_SIZE, STACK_BYTES = 256 << 10, GUARD_BYTES = 4096, SHARED_BYTES = 232448 };

// A launch that takes longer than this hangs: kernels of the tests take milliseconds.
enum { LIMIT_SECONDS = 120 };

struct fiber {
    ucontext_t start;
    jmp_buf at;
    bool has_started;
    struct fiber *next;
};

struct thread {
    struct fiber *fiber;
    bool has_ended;
    enum meeting waits_at;
    unsigned exchanges; // how often it took slots
};

// What kernels see.
EXPORT struct place stand_in_place;
EXPORT unsigned char dynamic_shared_mem[SHARED_BYTES] __attribute__((aligned(1024)));

static struct {
    pthread_mutex_t lock;
    entry kernel;
    const char *name;
    void **arguments;
    unsigned count;                // threads of a block
    struct thread *now;            // the one that runs
    struct thread threads[MAX_THREADS];
    unsigned char slots[MAX_WARPS][2][SLOTS_BYTES] __attribute__((aligned(64)));
    struct fiber *free;            // fibers that no thread has
    jmp_buf scheduler;
} run = {.lock = PTHREAD_MUTEX_INITIALIZER};

// Failures ---------------------------------------------------------------------------------------------------------------

static const char *const meetings[MEETINGS] = {
    [MEET_BLOCK] = "__syncthreads", [MEET_WARP] = "__syncwarp", [MEET_SHUFFLE] = "a shuffle", [MEET_BALLOT] = "a vote", [MEET_MATRIX] = "a product of matrices",
};

// Ends the process. Only what may be called in signal handlers.
static _Noreturn void fail(const char *what) {
    char text[1024];
    const struct place *at = &stand_in_place;
    int length = snprintf(text, sizeof text, "\nstand-in driver: kernel %s, block %u,%u,%u, thread %u,%u,%u: %s\n", run.name, at->block.x, at->block.y,
                          at->block.z, at->thread.x, at->thread.y, at->thread.z, what);
    ssize_t written = write(STDERR_FILENO, text, (size_t)length);
    (void)written;
    _exit(134); // as after abort
}

static void on_signal(int number) {
    if (!run.name) { // not in a kernel
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    fail(number == SIGALRM ? "does not end" : number == SIGFPE ? "divides an integer by zero" : "touches memory that is not there");
}

static void watch(void) {
    static __thread bool is_watched;
    if (is_watched) return;
    is_watched = true;
    // On a stack of its own, since that of a fiber may be full.
    static char stack[64 << 10];
    stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&other, NULL);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGALRM};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) sigaction(numbers[i], &action, NULL);
}

// Fibers -----------------------------------------------------------------------------------------------------------------

static void back_to_scheduler(void) {
    if (!_setjmp(run.now->fiber->at)) _longjmp(run.scheduler, 1);
}

static void live(void) {
    for (;;) {
        run.kernel(run.arguments);
        run.now->has_ended = true;
        back_to_scheduler();
    }
}

static struct fiber *new_fiber(void) {
    struct fiber *fiber = calloc(1, sizeof *fiber);
    char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!fiber || stack == MAP_FAILED) fail("no memory for a stack");
    mprotect(stack, GUARD_BYTES, PROT_NONE);
    getcontext(&fiber->start);
    fiber->start.uc_stack.ss_sp = stack;
    fiber->start.uc_stack.ss_size = STACK_BYTES;
    makecontext(&fiber->start, live, 0);
    return fiber;
}

static struct fiber *take_fiber(void) {
    if (!run.free) return new_fiber();
    struct fiber *fiber = run.free;
    run.free = fiber->next;
    return fiber;
}

// Lets a thread run until it waits or ends.
static void resume(unsigned index) {
    struct thread *thread = &run.threads[index];
    const struct dimensions size = stand_in_place.block_size;
    stand_in_place.thread = (struct dimensions){index % size.x, index / size.x % size.y, index / (size.x * size.y)};
    stand_in_place.lane = index % WARP_SIZE;
    thread->waits_at = MEET_NOWHERE;
    run.now = thread;
    if (!thread->fiber) thread->fiber = take_fiber();
    struct fiber *fiber = thread->fiber;
    if (!_setjmp(run.scheduler)) {
        if (fiber->has_started) _longjmp(fiber->at, 1);
        fiber->has_started = true;
        setcontext(&fiber->start);
    }
    if (run.now->has_ended) {
        run.now->fiber->next = run.free;
        run.free = run.now->fiber;
        run.now->fiber = NULL;
    }
}

EXPORT void stand_in_meet(int meeting) {
    run.now->waits_at = (enum meeting)meeting;
    back_to_scheduler();
}

// A warp has slots twice and takes them in turn: a lane that is ahead writes to those that no lane reads.
EXPORT void *stand_in_slots(void) {
    unsigned warp = (unsigned)(run.now - run.threads) / WARP_SIZE;
    return run.slots[warp][run.now->exchanges++ % 2];
}

// The lanes of the warp that have not ended, as bits.
EXPORT unsigned stand_in_lanes(void) {
    unsigned first = (unsigned)(run.now - run.threads) / WARP_SIZE * WARP_SIZE, lanes = 0;
    for (unsigned lane = 0; lane < WARP_SIZE && first + lane < run.count; lane++) lanes |= (unsigned)!run.threads[first + lane].has_ended << lane;
    return lanes;
}

// Blocks -----------------------------------------------------------------------------------------------------------------

// Runs a warp until all its threads have ended or wait for the block.
static void run_warp(unsigned first, bool backwards) {
    unsigned count = run.count - first < WARP_SIZE ? run.count - first : WARP_SIZE;
    for (;;) {
        enum meeting met = MEET_NOWHERE;
        for (unsigned i = 0; i < count; i++) {
            unsigned index = first + (backwards ? count - 1 - i : i);
            if (!run.threads[index].has_ended) resume(index);
        }
        for (unsigned index = first; index < first + count; index++) {
            const struct thread *thread = &run.threads[index];
            if (thread->has_ended || thread->waits_at == met) continue;
            if (met) {
                char text[256];
                snprintf(text, sizeof text, "a deadlock: of one warp, some threads wait at %s and others at %s", meetings[met], meetings[thread->waits_at]);
                fail(text);
            }
            met = thread->waits_at;
        }
        if (met == MEET_NOWHERE || met == MEET_BLOCK) return;
    }
}

static void run_block(bool backwards) {
    for (unsigned i = 0; i < run.count; i++) run.threads[i] = (struct thread){0};
    unsigned warps = (run.count + WARP_SIZE - 1) / WARP_SIZE;
    for (bool is_waiting = true; is_waiting;) {
        is_waiting = false;
        for (unsigned i = 0; i < warps; i++) run_warp((backwards ? warps - 1 - i : i) * WARP_SIZE, backwards);
        // Since Volta a barrier waits for those threads that have not ended.
        for (unsigned i = 0; i < run.count; i++) is_waiting = is_waiting || !run.threads[i].has_ended;
    }
}

void run_kernel(entry kernel, const char *name, struct dimensions grid, struct dimensions block, unsigned shared_bytes, void **arguments) {
    pthread_mutex_lock(&run.lock);
    run.kernel = kernel;
    run.arguments = arguments;
    run.count = block.x * block.y * block.z;
    stand_in_place = (struct place){.block_size = block, .grid_size = grid};
    watch();
    run.name = name;
    alarm(LIMIT_SECONDS);
    bool backwards = false;
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                stand_in_place.block = (struct dimensions){x, y, z};
                memset(dynamic_shared_mem, 0xff, shared_bytes);
                run_block(backwards);
                backwards = !backwards;
            }
    alarm(0);
    run.name = NULL;
    pthread_mutex_unlock(&run.lock);
}

// Loading ----------------------------------------------------------------------------------------------------------------

static const char *folder(void) { return getenv("STAND_IN_KERNELS"); }

bool kernels_run(void) { return folder() != NULL; }

entry load_kernel(const char *hash, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.so", folder(), hash);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    entry kernel = NULL;
    if (library) *(void **)&kernel = dlsym(library, "stand_in_entry");
    if (!kernel) fprintf(stderr, "stand-in driver: kernel %s is not loaded: %s\n", name, dlerror());
    return kernel;
}
