// Kernels for the CPU: what `native.c` does for the compiler.
#pragma once
#include <stdbool.h>
#include <stddef.h>

// Whether kernels are to be compiled for the CPU.
bool kernels_are_compiled(void);

// The source without what differs from process to process, as a new string.
char *normalized(const char *source);

// Compiles a kernel, unless it was before; if that fails, says why in `log` and on the standard error.
bool compile_native(const char *source, const char *hash, const char *entry, char *log, size_t size);
