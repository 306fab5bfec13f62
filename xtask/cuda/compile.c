// Compiles kernels with the true NVRTC, which needs no device, and says what became of each.
//
//   compile LIBRARY ARCHITECTURE INCLUDE.. -- SOURCE..
//
// For each source a line `SOURCE RESULT MILLISECONDS`, where RESULT is 0 or NVRTC's error, and below it the compiler's log with
// the registers and spills that ptxas found, each line indented.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef void *program;
static int (*create)(program *, const char *, const char *, int, const char *const *, const char *const *);
static int (*compile)(program, int, const char *const *);
static int (*destroy)(program *);
static int (*log_size)(program, size_t *);
static int (*get_log)(program, char *);

static void *needed(void *library, const char *name) {
    void *function = dlsym(library, name);
    if (!function) {
        fprintf(stderr, "%s: not in the library\n", name);
        exit(1);
    }
    return function;
}

static char *whole(const char *path) {
    FILE *file = fopen(path, "r");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    size_t size = (size_t)ftell(file);
    rewind(file);
    char *text = calloc(1, size + 1);
    size_t read = fread(text, 1, size, file);
    fclose(file);
    return read == size ? text : NULL;
}

static double milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static void compile_file(const char *path, int count, const char *const *options) {
    char *source = whole(path);
    if (!source) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(1);
    }
    program it;
    double start = milliseconds();
    int result = create(&it, source, NULL, 0, NULL, NULL);
    if (!result) result = compile(it, count, options);
    printf("%s %d %.0f\n", path, result, milliseconds() - start);
    size_t size = 0;
    log_size(it, &size);
    char *log = calloc(1, size + 1), *rest = log, *line;
    get_log(it, log);
    while ((line = strsep(&rest, "\n"))) if (*line) printf("    %s\n", line);
    fflush(stdout);
    destroy(&it);
    free(log);
    free(source);
}

int main(int count, char **arguments) {
    if (count < 5) return 2;
    void *library = dlopen(arguments[1], RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    *(void **)&create = needed(library, "nvrtcCreateProgram");
    *(void **)&compile = needed(library, "nvrtcCompileProgram");
    *(void **)&destroy = needed(library, "nvrtcDestroyProgram");
    *(void **)&log_size = needed(library, "nvrtcGetProgramLogSize");
    *(void **)&get_log = needed(library, "nvrtcGetProgramLog");
    const char *options[64];
    int at = 2, given = 0;
    char architecture[64];
    snprintf(architecture, sizeof architecture, "--gpu-architecture=%s", arguments[at++]);
    options[given++] = architecture;
    // As CubeCL compiles, and with ptxas's report.
    options[given++] = "-lineinfo";
    options[given++] = "--ptxas-options=-v";
    for (; at < count && strcmp(arguments[at], "--") && given < 64; at++) {
        char *option = NULL;
        if (asprintf(&option, "--include-path=%s", arguments[at]) < 0) return 1;
        options[given++] = option;
    }
    for (at++; at < count; at++) compile_file(arguments[at], given, options);
    return 0;
}
