// Kernels on the CPU: what `blocks.c`, which runs them, shows the driver and the kernels. `include/cuda_runtime.h` repeats
// what kernels see, because it is C++.
#pragma once
#include <stdbool.h>

struct dimensions {
    unsigned x, y, z;
};

// The thread that runs.
struct place {
    struct dimensions thread, block, block_size, grid_size;
    unsigned lane;
};

// Where threads wait for each other: all of the block at the first, all of the warp at the others.
enum meeting { MEET_NOWHERE, MEET_BLOCK, MEET_WARP, MEET_SHUFFLE, MEET_BALLOT, MEET_MATRIX, MEETINGS };

enum { WARP_SIZE = 32, SLOTS_BYTES = 4096 };

// Whether kernels run: the folder of those that `compiler.c` compiled, in the variable STAND_IN_KERNELS.
bool kernels_run(void);

// The function of a compiled kernel that takes its arguments as the driver does; NULL after a message if there is none.
typedef void (*entry)(void **arguments);
entry load_kernel(const char *hash, const char *name);

// Runs all blocks, one after the other, and returns when they have ended. A kernel that fails ends the process, after a message
// that names it.
void run_kernel(entry kernel, const char *name, struct dimensions grid, struct dimensions block, unsigned shared_bytes, void **arguments);
