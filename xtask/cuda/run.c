// Runs a kernel of a file on the CPU, for the tests of `xtask/src/cuda/emulate.rs`:
//
//   run SOURCE KERNEL BLOCKS THREADS NUMBERS
//
// The kernel takes one array of floats, which is zeros before and printed after. It has as many bytes of shared memory.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#include "emulation.h"
#include "native.h"

static char *whole(const char *path) {
    char *text = NULL;
    size_t size = 0;
    FILE *file = fopen(path, "r");
    if (!file || getdelim(&text, &size, 0, file) < 0) exit(2);
    fclose(file);
    return text;
}

int main(int count, char **arguments) {
    if (count < 6) return 2;
    const char *kernel = arguments[2];
    char log[4096];
    if (!compile_native(normalized(whole(arguments[1])), kernel, kernel, log, sizeof log)) return 1;
    entry run = load_kernel(kernel, kernel);
    if (!run) return 1;
    const struct dimensions grid = {(unsigned)atoi(arguments[3]), 1, 1}, block = {(unsigned)atoi(arguments[4]), 1, 1};
    size_t numbers = (size_t)atoi(arguments[5]);
    float *buffer = calloc(numbers, sizeof *buffer);
    void *parameters[] = {&buffer};
    run_kernel(run, kernel, grid, block, (unsigned)(numbers * sizeof *buffer), parameters);
    for (size_t i = 0; i < numbers; i++) printf("%g\n", (double)buffer[i]);
    return 0;
}
