// A compiler that keeps what it is given: NVRTC's functions, as CubeCL calls them.
//
// Each kernel's source becomes `HASH.cu` in the folder that STAND_IN_SOURCES names. What the driver gets in the place of
// PTX is the line `//stand-in HASH ENTRY SIZE,SIZE,..` with the bytes of the kernel's parameters.
//
// Where kernels run, `native.c` compiles them besides.
#define _GNU_SOURCE
#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "native.h"

#define EXPORT __attribute__((visibility("default")))
enum { NVRTC_SUCCESS = 0, NVRTC_ERROR_COMPILATION = 6, MAX_PATH = 4096 };
// The version that programs are told.
enum { MAJOR = 12, MINOR = 9 };

struct program {
    char *source;
    char image[4096], entry[256];
    char log[4096];
};

// The bytes of a type as CubeCL names it: `float`, `__nv_bfloat16`, and `uint32`, which is `uint32_t` in CubeCL 0.11.
static size_t size_of(const char *type, size_t length) {
    if (length > 2 && !strncmp(type + length - 2, "_t", 2)) length -= 2;
    static const struct { const char *name; size_t size; } types[] = {
        {"float", 4}, {"double", 8}, {"int", 4}, {"uint", 4}, {"int8", 1}, {"uint8", 1}, {"bool", 1}, {"int16", 2}, {"uint16", 2},
        {"int32", 4}, {"uint32", 4}, {"int64", 8}, {"uint64", 8}, {"__half", 2}, {"__nv_bfloat16", 2},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strlen(types[i].name) == length && !strncmp(types[i].name, type, length)) return types[i].size;
    return 0;
}

static size_t aligned(size_t at, size_t alignment) { return (at + alignment - 1) / alignment * alignment; }

// The bytes of `struct info_st { uint32 scalars_uint32[2]; uint64 static_meta[4]; };`
static size_t size_of_info(const char *source) {
    const char *at = strstr(source, "struct info_st {");
    if (!at) return 0;
    at = strchr(at, '{') + 1;
    size_t size = 0, widest = 1;
    char type[64], field[64];
    unsigned length;
    for (int used; sscanf(at, " %63[A-Za-z0-9_] %63[A-Za-z0-9_][%u];%n", type, field, &length, &used) == 3; at += used) {
        size_t element = size_of(type, strlen(type));
        if (!element) return 0;
        size = aligned(size, element) + element * length;
        widest = element > widest ? element : widest;
    }
    return aligned(size, widest);
}

// Writes the entry's name and the sizes of its parameters behind the hash; false if the source is not understood.
static bool describe(struct program *program, const char *hash) {
    const char *at = strstr(program->source, "__global__ void");
    if (!at) return false;
    at += strlen("__global__ void");
    char word[256];
    for (int used; sscanf(at, " %255[A-Za-z0-9_]%n", word, &used) == 1; at += used)
        if (!strncmp(word, "__launch_bounds__", 17) || !strncmp(word, "__cluster_dims__", 16)) used = (int)(strchr(at, ')') + 1 - at);
    at = strchr(at, '(');
    if (!at) return false;
    snprintf(program->entry, sizeof program->entry, "%s", word);
    int written = snprintf(program->image, sizeof program->image, "//stand-in %s %s ", hash, word);
    for (const char *end; *at != ')'; at = end) {
        at++;
        end = at + strcspn(at, ",)");
        bool is_empty = true;
        for (const char *c = at; c < end; c++) is_empty = is_empty && isspace((unsigned char)*c);
        if (is_empty) continue;
        size_t length = (size_t)(end - at);
        size_t size = memmem(at, length, "CUtensorMap", 11) ? 128 : memmem(at, length, "*", 1) ? 8 : memmem(at, length, "info_st", 7) ? size_of_info(program->source) : 0;
        if (!size || (size_t)written + 16 > sizeof program->image) return false;
        written += snprintf(program->image + written, sizeof program->image - (size_t)written, "%zu,", size);
    }
    return true;
}

// FNV-1a.
static uint64_t hash_of(const char *text) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    return hash;
}

// Writes a file whole or not at all, since processes may share the folder.
static void write_file(const char *path, const char *text) {
    char draft[MAX_PATH + 32];
    snprintf(draft, sizeof draft, "%s.%d", path, getpid());
    FILE *file = fopen(draft, "w");
    if (!file) abort();
    fputs(text, file);
    fclose(file);
    rename(draft, path);
}

EXPORT int nvrtcVersion(int *major, int *minor) { *major = MAJOR; *minor = MINOR; return NVRTC_SUCCESS; }
EXPORT const char *nvrtcGetErrorString(int error) { (void)error; return "refused by the stand-in compiler"; }
EXPORT int nvrtcCreateProgram(void **created, const char *source, const char *name, int count, const char *const *headers, const char *const *names) {
    (void)name, (void)count, (void)headers, (void)names;
    struct program *program = calloc(1, sizeof *program);
    program->source = strdup(source);
    *created = program;
    return NVRTC_SUCCESS;
}
EXPORT int nvrtcDestroyProgram(void **program) {
    free(((struct program *)*program)->source);
    free(*program);
    *program = NULL;
    return NVRTC_SUCCESS;
}
EXPORT int nvrtcCompileProgram(void *compiled, int count, const char *const *options) {
    (void)count, (void)options;
    struct program *program = compiled;
    char hash[32], path[MAX_PATH];
    if (kernels_are_compiled()) {
        char *source = normalized(program->source);
        free(program->source);
        program->source = source;
    }
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)hash_of(program->source));
    const char *folder = getenv("STAND_IN_SOURCES");
    if (folder) {
        snprintf(path, sizeof path, "%s/%s.cu", folder, hash);
        if (access(path, F_OK)) write_file(path, program->source);
    }
    if (!describe(program, hash)) {
        snprintf(program->log, sizeof program->log, "%s: the stand-in does not understand the kernel's parameters", hash);
        return NVRTC_ERROR_COMPILATION;
    }
    if (kernels_are_compiled() && !compile_native(program->source, hash, program->entry, program->log, sizeof program->log)) return NVRTC_ERROR_COMPILATION;
    return NVRTC_SUCCESS;
}
EXPORT int nvrtcGetPTXSize(void *program, size_t *size) { *size = strlen(((struct program *)program)->image) + 1; return NVRTC_SUCCESS; }
EXPORT int nvrtcGetPTX(void *program, char *ptx) { strcpy(ptx, ((struct program *)program)->image); return NVRTC_SUCCESS; }
EXPORT int nvrtcGetProgramLogSize(void *program, size_t *size) { *size = strlen(((struct program *)program)->log) + 1; return NVRTC_SUCCESS; }
EXPORT int nvrtcGetProgramLog(void *program, char *log) { strcpy(log, ((struct program *)program)->log); return NVRTC_SUCCESS; }
