// The memory of the device: address space, whose pages exist once they are touched. A model of many gigabytes fits on a
// small machine where kernels do not run, because then only what is uploaded is touched.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "emulation.h"
#include "stand_in.h"

struct block {
    CUdeviceptr start;
    size_t size;
    struct block *next;
};

// Blocks by the page they start at.
enum { SLOTS = 1 << 16, PAGE_LOG2 = 12 };
static struct block *blocks[SLOTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static size_t given_out;

size_t bytes_given_out(void) { return given_out; }

static void *pages(size_t size) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *start = mmap(NULL, size ? size : 1, PROT_READ | PROT_WRITE, flags, -1, 0);
    return start == MAP_FAILED ? NULL : start;
}

static struct block **slot_of(CUdeviceptr start) { return &blocks[start >> PAGE_LOG2 & (SLOTS - 1)]; }

static CUresult take(CUdeviceptr *start, size_t size) {
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    void *at = given_out + size <= DEVICE_BYTES ? pages(size) : NULL;
    if (at) {
        *start = (CUdeviceptr)at;
        struct block *block = malloc(sizeof *block), **slot = slot_of(*start);
        *block = (struct block){.start = *start, .size = size, .next = *slot};
        *slot = block;
        given_out += size;
        result = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    log_line(result != CUDA_SUCCESS, "%s %zu", result == CUDA_SUCCESS ? "allocate" : "out-of-memory", size);
    return result;
}

static CUresult give_back(CUdeviceptr start) {
    size_t size = 0;
    pthread_mutex_lock(&lock);
    struct block **at = slot_of(start);
    while (*at && (*at)->start != start) at = &(*at)->next;
    if (*at) {
        struct block *block = *at;
        size = block->size;
        *at = block->next;
        given_out -= size;
        munmap((void *)start, size ? size : 1);
        free(block);
    }
    pthread_mutex_unlock(&lock);
    log_line(false, "free %zu", size);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAllocAsync(CUdeviceptr *start, size_t size, CUhandle stream) { (void)stream; return take(start, size); }
EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *start, size_t size) { return take(start, size); }
EXPORT CUresult cuMemFreeAsync(CUdeviceptr start, CUhandle stream) { (void)stream; return give_back(start); }
EXPORT CUresult cuMemFree_v2(CUdeviceptr start) { return give_back(start); }

// Pinned memory is never given back: CubeCL keeps a pool of it.
EXPORT CUresult cuMemAllocHost_v2(void **start, size_t size) {
    if (size == 0) return CUDA_ERROR_INVALID_VALUE;
    *start = pages(size);
    return *start ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
EXPORT CUresult cuMemFreeHost(void *start) { (void)start; return CUDA_SUCCESS; }

// What is uploaded is kept. Where kernels do not run, what they would have computed does not exist, so what is read back is
// zeros: pages that were used before hold old values, and an overflow flag among them would skip the step.
static void read_back(void *host, CUdeviceptr device, size_t size) {
    if (kernels_run()) memcpy(host, (void *)device, size);
    else memset(host, 0, size);
}

EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr device, const void *host, size_t size, CUhandle stream) {
    (void)stream;
    memcpy((void *)device, host, size);
    log_line(false, "upload %zu", size);
    return CUDA_SUCCESS;
}
EXPORT CUresult cuMemcpyDtoHAsync_v2(void *host, CUdeviceptr device, size_t size, CUhandle stream) {
    (void)stream;
    read_back(host, device, size);
    log_line(false, "read %zu", size);
    return CUDA_SUCCESS;
}
EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUhandle stream) {
    (void)stream;
    if (kernels_run()) memmove((void *)to, (void *)from, size);
    log_line(false, "move %zu", size);
    return CUDA_SUCCESS;
}
EXPORT CUresult cuMemsetD8Async(CUdeviceptr start, unsigned char value, size_t size, CUhandle stream) {
    (void)stream;
    if (kernels_run()) memset((void *)start, value, size);
    log_line(false, "fill %zu", size);
    return CUDA_SUCCESS;
}

// CUDA_MEMCPY2D: rows of `width` bytes between pitched tensors.
struct side {
    size_t x, y;
    int type;
    void *host;
    CUdeviceptr device;
    CUhandle array;
    size_t pitch;
};
struct copy {
    struct side from, to;
    size_t width, height;
};
enum { MEMORY_HOST = 1 };

EXPORT CUresult cuMemcpy2DAsync_v2(const struct copy *copy, CUhandle stream) {
    (void)stream;
    bool is_upload = copy->from.type == MEMORY_HOST, is_read = copy->to.type == MEMORY_HOST;
    for (size_t row = 0; row < copy->height; row++) {
        size_t from = row * copy->from.pitch, to = row * copy->to.pitch;
        if (is_upload) memcpy((char *)copy->to.device + to, (const char *)copy->from.host + from, copy->width);
        else if (is_read) read_back((char *)copy->to.host + to, copy->from.device + from, copy->width);
        else if (kernels_run()) memmove((char *)copy->to.device + to, (char *)copy->from.device + from, copy->width);
    }
    log_line(false, "%s %zu", is_upload ? "upload" : is_read ? "read" : "move", copy->width * copy->height);
    return CUDA_SUCCESS;
}
