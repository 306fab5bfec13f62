// A CUDA driver without a device: what CubeCL asks of libcuda, answered for an H200. Kernels are logged; they run only where
// `blocks.c` has them compiled for the CPU.
//
// The log has a line for each event between cuProfilerStart and cuProfilerStop; `xtask/src/cuda/log.rs` reads it.
//
//   start | stop
//   launch HASH ENTRY GRID BLOCK SHARED ARGUMENT..   a pointer in hexadecimal; a structure as words, `[a,b,..]`
//   upload | read | move | fill | allocate | free BYTES
//   wait BEHIND                                      the host waits for the device, for what it was given before the last
//                                                    BEHIND launches: 0 drains the queue, 64 hardly waits
//   descriptor tiled | im2col made | refused         of a tensor for TMA
//   refused WHAT                                     what a true driver would refuse; logged always
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulation.h"
#include "stand_in.h"

// The log ---------------------------------------------------------------------------------------------------------------

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static FILE *file;
static atomic_bool is_marked;

static FILE *opened(void) {
    if (!file) {
        const char *path = getenv("STAND_IN_LOG");
        file = fopen(path ? path : "/dev/null", "w");
        if (!file) abort();
    }
    return file;
}

bool log_is_on(void) { return atomic_load(&is_marked); }

void log_line(bool always, const char *format, ...) {
    if (!always && !log_is_on()) return;
    va_list values;
    va_start(values, format);
    pthread_mutex_lock(&lock);
    vfprintf(opened(), format, values);
    fputc('\n', file);
    if (always) fflush(file);
    pthread_mutex_unlock(&lock);
    va_end(values);
}

EXPORT CUresult cuProfilerStart(void) {
    log_line(true, "start");
    atomic_store(&is_marked, true);
    return CUDA_SUCCESS;
}
EXPORT CUresult cuProfilerStop(void) {
    atomic_store(&is_marked, false);
    log_line(true, "stop");
    pthread_mutex_lock(&lock);
    fflush(file);
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

// The device ------------------------------------------------------------------------------------------------------------

enum { COMPUTE_CAPABILITY = 75, MAX_BLOCK = 1024, MAX_GRID_YZ = 65535, SHARED_BYTES = 232448, DRIVER_VERSION = 13000 };

// CUdevice_attribute and its value on an H200, sm_90.
static const int attributes[][2] = {
    {1, MAX_BLOCK}, {2, MAX_BLOCK}, {3, MAX_BLOCK}, {4, 64},         // units per block: all, and by dimension
    {5, INT32_MAX}, {6, MAX_GRID_YZ}, {7, MAX_GRID_YZ},              // blocks per grid by dimension
    {8, 49152}, {81, 233472}, {97, SHARED_BYTES},                    // shared memory: block, multiprocessor, block at most
    {10, 32}, {12, 65536}, {82, 65536},                              // warp; registers of a block and a multiprocessor
    {13, 1980000}, {36, 3201000}, {37, 6144}, {38, 62914560},        // kHz of cores and memory, bits of the bus, L2
    {16, 132}, {39, 2048},                                           // multiprocessors, units on each
    {COMPUTE_CAPABILITY, 9}, {76, 0},                                // compute capability
    {115, 1},                                                        // memory pools
};

EXPORT CUresult cuInit(unsigned flags) { (void)flags; return CUDA_SUCCESS; }
EXPORT CUresult cuDriverGetVersion(int *version) { *version = DRIVER_VERSION; return CUDA_SUCCESS; }
EXPORT CUresult cuDeviceGetCount(int *count) { *count = 1; return CUDA_SUCCESS; }
EXPORT CUresult cuDeviceGet(CUdevice *device, int index) {
    *device = index;
    return index ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetName(char *name, int size, CUdevice device) {
    (void)device;
    snprintf(name, (size_t)size, "stand-in for an NVIDIA H200");
    return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetUuid_v2(char *uuid, CUdevice device) { (void)device; memset(uuid, 0, 16); return CUDA_SUCCESS; }
EXPORT CUresult cuDeviceGetPCIBusId(char *id, int size, CUdevice device) {
    (void)device;
    snprintf(id, (size_t)size, "0000:00:00.0");
    return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) { (void)device; *bytes = DEVICE_BYTES; return CUDA_SUCCESS; }
EXPORT CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
    *total = DEVICE_BYTES;
    *free = DEVICE_BYTES - bytes_given_out();
    return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
    (void)device;
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
        if (attributes[i][0] != attribute) continue;
        *value = attributes[i][1];
        // The major number of another compute capability, for programs that are to do without what came after it.
        if (attribute == COMPUTE_CAPABILITY && getenv("STAND_IN_COMPUTE")) *value = atoi(getenv("STAND_IN_COMPUTE"));
        return CUDA_SUCCESS;
    }
    log_line(true, "refused attribute %d, which the stand-in does not know", attribute);
    return CUDA_ERROR_INVALID_VALUE;
}

// Contexts, streams, events ---------------------------------------------------------------------------------------------

static CUhandle new_handle(void) {
    static atomic_uintptr_t last = 0x1000;
    return (CUhandle)(atomic_fetch_add(&last, 16) + 16);
}
static const CUhandle the_context = (CUhandle)0x1000;

EXPORT CUresult cuDevicePrimaryCtxRetain(CUhandle *context, CUdevice device) { (void)device; *context = the_context; return CUDA_SUCCESS; }
EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) { (void)device; return CUDA_SUCCESS; }
EXPORT CUresult cuCtxSetCurrent(CUhandle context) { (void)context; return CUDA_SUCCESS; }
EXPORT CUresult cuCtxGetCurrent(CUhandle *context) { *context = the_context; return CUDA_SUCCESS; }
EXPORT CUresult cuCtxSynchronize(void) { log_line(false, "wait 0"); return CUDA_SUCCESS; }
EXPORT CUresult cuGetErrorName(CUresult error, const char **name) { (void)error; *name = "STAND_IN_REFUSED"; return CUDA_SUCCESS; }
EXPORT CUresult cuGetErrorString(CUresult error, const char **text) { (void)error; *text = "refused by the stand-in driver"; return CUDA_SUCCESS; }

EXPORT CUresult cuStreamCreate(CUhandle *stream, unsigned flags) { (void)flags; *stream = new_handle(); return CUDA_SUCCESS; }
EXPORT CUresult cuStreamCreateWithPriority(CUhandle *stream, unsigned flags, int priority) { (void)priority; return cuStreamCreate(stream, flags); }
EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) { *least = *greatest = 0; return CUDA_SUCCESS; }
EXPORT CUresult cuStreamDestroy_v2(CUhandle stream) { (void)stream; return CUDA_SUCCESS; }
EXPORT CUresult cuStreamSynchronize(CUhandle stream) { (void)stream; log_line(false, "wait 0"); return CUDA_SUCCESS; }
EXPORT CUresult cuStreamWaitEvent(CUhandle stream, CUhandle event, unsigned flags) { (void)stream, (void)event, (void)flags; return CUDA_SUCCESS; }

// An event knows how many kernels had been launched when it was recorded, and the time that the slow ones took.
static atomic_ulong launches;
struct event {
    unsigned long launches;
    uint64_t nanoseconds;
};

EXPORT CUresult cuEventCreate(CUhandle *event, unsigned flags) { (void)flags; *event = calloc(1, sizeof(struct event)); return CUDA_SUCCESS; }
EXPORT CUresult cuEventRecord(CUhandle event, CUhandle stream) {
    (void)stream;
    *(struct event *)event = (struct event){atomic_load(&launches), clock_of_slow_kernels()};
    return CUDA_SUCCESS;
}
EXPORT CUresult cuEventElapsedTime(float *milliseconds, CUhandle start, CUhandle end) {
    *milliseconds = (float)(((struct event *)end)->nanoseconds - ((struct event *)start)->nanoseconds) / 1e6f;
    return CUDA_SUCCESS;
}
EXPORT CUresult cuEventQuery(CUhandle event) { (void)event; return CUDA_SUCCESS; }
EXPORT CUresult cuEventSynchronize(CUhandle event) {
    log_line(false, "wait %lu", atomic_load(&launches) - ((struct event *)event)->launches);
    return CUDA_SUCCESS;
}
EXPORT CUresult cuEventDestroy_v2(CUhandle event) { free(event); return CUDA_SUCCESS; }

// Kernels ---------------------------------------------------------------------------------------------------------------

enum { MAX_PARAMETERS = 128, POINTER = 8 };

// A module has one kernel. `compiler.c` writes it as `//stand-in HASH ENTRY SIZE,SIZE,..`: the bytes of the parameters.
struct kernel {
    char hash[32], entry[256];
    int parameters;
    int sizes[MAX_PARAMETERS];
    entry run; // NULL where kernels do not run
};

EXPORT CUresult cuModuleLoadData(CUhandle *module, const void *image) {
    struct kernel *kernel = calloc(1, sizeof *kernel);
    *module = kernel;
    int read = 0;
    // What the true NVRTC compiled, for a cache that another machine will use.
    if (sscanf(image, "//stand-in %31s %255s %n", kernel->hash, kernel->entry, &read) != 2) return CUDA_SUCCESS;
    const char *at = (const char *)image + read;
    for (int used; kernel->parameters < MAX_PARAMETERS && sscanf(at, "%d,%n", &kernel->sizes[kernel->parameters], &used) == 1; at += used)
        kernel->parameters++;
    if (!kernels_run()) return CUDA_SUCCESS;
    kernel->run = load_kernel(kernel->hash, kernel->entry);
    return kernel->run ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult cuModuleUnload(CUhandle module) { (void)module; return CUDA_SUCCESS; }
EXPORT CUresult cuModuleGetFunction(CUhandle *function, CUhandle module, const char *name) {
    struct kernel *kernel = module;
    if (!*kernel->entry) snprintf(kernel->entry, sizeof kernel->entry, "%s", name);
    *function = module;
    return strcmp(kernel->entry, name) ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}
EXPORT CUresult cuFuncGetAttribute(int *value, int attribute, CUhandle function) { (void)attribute, (void)function; *value = 0; return CUDA_SUCCESS; }
EXPORT CUresult cuFuncSetAttribute(CUhandle function, int attribute, int value) {
    (void)function, (void)attribute;
    return value > SHARED_BYTES ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static void log_launch(const struct kernel *kernel, const unsigned grid[3], const unsigned block[3], unsigned shared, void **parameters) {
    static __thread char text[1 << 16];
    char *at = text, *end = text + sizeof text;
    for (int i = 0; i < kernel->parameters; i++) {
        if (end - at < 64) break;
        if (kernel->sizes[i] == POINTER) {
            at += snprintf(at, (size_t)(end - at), " %lx", *(unsigned long *)parameters[i]);
            continue;
        }
        const uint32_t *words = parameters[i];
        at += snprintf(at, (size_t)(end - at), " [");
        for (int word = 0; word < kernel->sizes[i] / 4 && end - at > 64; word++) at += snprintf(at, (size_t)(end - at), "%x,", words[word]);
        at += snprintf(at, (size_t)(end - at), "]");
    }
    *at = 0;
    log_line(false, "launch %s %s %u,%u,%u %u,%u,%u %u%s", kernel->hash, kernel->entry, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared, text);
}

EXPORT CUresult cuLaunchKernel(CUhandle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                               unsigned shared, CUhandle stream, void **parameters, void **extra) {
    (void)stream, (void)extra;
    const struct kernel *kernel = function;
    const unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
    bool is_valid = gx && gy && gz && gx <= INT32_MAX && gy <= MAX_GRID_YZ && gz <= MAX_GRID_YZ && bx && by && bz && bz <= 64
        && (uint64_t)bx * by * bz <= MAX_BLOCK && shared <= SHARED_BYTES;
    if (!is_valid) {
        log_line(true, "refused launch of %s: grid %u,%u,%u block %u,%u,%u shared %u", kernel->entry, gx, gy, gz, bx, by, bz, shared);
        return CUDA_ERROR_INVALID_VALUE;
    }
    atomic_fetch_add(&launches, 1);
    clock_launched(kernel->entry);
    if (log_is_on()) log_launch(kernel, grid, block, shared, parameters);
    if (kernel->run) run_kernel(kernel->run, kernel->entry, (struct dimensions){gx, gy, gz}, (struct dimensions){bx, by, bz}, shared, parameters);
    return CUDA_SUCCESS;
}

// Descriptors of tensors for TMA: the address and all strides but the innermost are multiples of 16 bytes.
enum { DESCRIPTOR_BYTES = 128, MAX_BOX = 256 };

static CUresult describe(void *descriptor, const char *kind, unsigned rank, void *address, const uint64_t *strides, bool is_valid) {
    memset(descriptor, 0, DESCRIPTOR_BYTES);
    memcpy(descriptor, &address, sizeof address);
    is_valid = is_valid && (uintptr_t)address % 16 == 0;
    for (unsigned i = 0; i + 1 < rank; i++) is_valid = is_valid && strides[i] % 16 == 0;
    // Refused descriptors are counted: the caller goes another way, or a candidate of a tuning is out.
    log_line(false, "descriptor %s %s", kind, is_valid ? "made" : "refused");
    return is_valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult cuTensorMapEncodeTiled(void *descriptor, int type, unsigned rank, void *address, const uint64_t *shape, const uint64_t *strides,
                                       const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int l2, int fill) {
    (void)type, (void)steps, (void)interleave, (void)swizzle, (void)l2, (void)fill;
    bool is_valid = true;
    for (unsigned i = 0; i < rank; i++) is_valid = is_valid && shape[i] && box[i] && box[i] <= MAX_BOX;
    return describe(descriptor, "tiled", rank, address, strides, is_valid);
}
EXPORT CUresult cuTensorMapEncodeIm2col(void *descriptor, int type, unsigned rank, void *address, const uint64_t *shape, const uint64_t *strides,
                                        const int *low, const int *high, unsigned channels, unsigned pixels, const uint32_t *steps, int interleave,
                                        int swizzle, int l2, int fill) {
    (void)type, (void)low, (void)high, (void)channels, (void)pixels, (void)steps, (void)interleave, (void)swizzle, (void)l2, (void)fill, (void)shape;
    return describe(descriptor, "im2col", rank, address, strides, true);
}

// NVRTC 12.9 looks here for the driver's cache of kernels. A table without entries says that there is none.
EXPORT CUresult cuGetExportTable(const void **table, const void *id) {
    (void)id;
    static const uint64_t empty[64] = {8};
    *table = empty;
    return CUDA_SUCCESS;
}
EXPORT CUresult cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, void *status) {
    (void)version, (void)flags, (void)status;
    *function = dlsym(RTLD_DEFAULT, name);
    return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
