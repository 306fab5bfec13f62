// What the parts of the stand-in driver share: the log, the memory of the device, and types of CUDA's driver API.
#pragma once
#define _GNU_SOURCE
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

// CUresult. Names and numbers are those of cuda.h.
enum { CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1, CUDA_ERROR_OUT_OF_MEMORY = 2, CUDA_ERROR_INVALID_DEVICE = 101, CUDA_ERROR_NOT_FOUND = 500 };

typedef int CUresult;
typedef int CUdevice;
typedef void *CUhandle; // contexts, streams, events, modules, functions
typedef uint64_t CUdeviceptr;

// Writes a line to the file that STAND_IN_LOG names, if `always` or between cuProfilerStart and cuProfilerStop.
void log_line(bool always, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool log_is_on(void);

// Bytes on the device: all of it, and what is given out.
#define DEVICE_BYTES (143771ull << 20)
size_t bytes_given_out(void);

// Tells the clock that a kernel was launched.
void clock_launched(const char *entry);
uint64_t clock_of_slow_kernels(void);
