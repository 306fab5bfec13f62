// Compiles kernels with the host's C++ compiler, into `HASH.so` in the folder that STAND_IN_KERNELS names; `blocks.c` runs them.
// What is there is not compiled again. STAND_IN_HEADERS names the folder of CUDA's headers for the host, `include`.
#define _GNU_SOURCE
#include "native.h"

#include <ctype.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_PATH = 4096 };
extern char **environ;

// Each operation of a kernel is one of the host, without the fused multiplications that NVRTC forms. From C++17 on, math.h has special
// functions, which take half of the time of a small kernel.
#define OPTIONS "-std=gnu++14", "-O1", "-w", "-shared", "-fPIC", "-ffp-contract=off", "-fno-strict-aliasing", "-pipe"

static const char *folder(void) { return getenv("STAND_IN_KERNELS"); }

bool kernels_are_compiled(void) { return folder() != NULL; }

// Normal form ------------------------------------------------------------------------------------------------------------

static int in_order(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

// Sorts the definitions of vectors, `struct __align__(8) float_2 {..};`, which come in any order and do not need each other.
static void sort_vectors(char *types) {
    enum { MOST = 256 };
    static const char opening[] = "struct __align__", closing[] = "};\n";
    char *first = strstr(types, opening), *vectors[MOST], *end = first;
    size_t count = 0;
    while (end && !strncmp(end, opening, sizeof opening - 1) && count < MOST) {
        char *after = strstr(end, closing) + sizeof closing - 1;
        vectors[count++] = strndup(end, (size_t)(after - end));
        end = after;
    }
    qsort(vectors, count, sizeof *vectors, in_order);
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(vectors[i]);
        memcpy(first, vectors[i], length);
        first += length;
        free(vectors[i]);
    }
}

// The number of a temporary variable, in the order in which they appear. Most are one of the last.
static size_t index_of(unsigned long number, unsigned long **numbers, size_t *count) {
    for (size_t i = *count; i > 0; i--)
        if ((*numbers)[i - 1] == number) return i - 1;
    *numbers = realloc(*numbers, (*count + 1) * sizeof **numbers);
    (*numbers)[*count] = number;
    return (*count)++;
}

char *normalized(const char *source) {
    static const char prefix[] = "_tmp_";
    char *text = malloc(8 * strlen(source) + 1), *to = text; // more than any number grows by
    unsigned long *numbers = NULL;
    size_t count = 0;
    for (const char *at = source; *at;) {
        if (strncmp(at, prefix, sizeof prefix - 1) || !isdigit((unsigned char)at[sizeof prefix - 1])) {
            *to++ = *at++;
            continue;
        }
        char *end;
        unsigned long number = strtoul(at + sizeof prefix - 1, &end, 10);
        to += sprintf(to, "%s%zu", prefix, index_of(number, &numbers, &count));
        at = end;
    }
    *to = 0;
    free(numbers);
    sort_vectors(text);
    return text;
}

// The compiler -----------------------------------------------------------------------------------------------------------

// Runs a command with its output in a file, and without the variables that put the stand-in under a program.
static bool succeeds(const char *const words[], const char *output) {
    char *variables[1024];
    size_t count = 0;
    for (char **variable = environ; *variable && count < 1023; variable++)
        if (strncmp(*variable, "LD_", 3)) variables[count++] = *variable;
    variables[count] = NULL;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    pid_t process;
    int status = -1;
    bool has_started = !posix_spawnp(&process, words[0], &actions, NULL, (char *const *)words, variables);
    posix_spawn_file_actions_destroy(&actions);
    return has_started && waitpid(process, &status, 0) == process && status == 0;
}

static const char *headers(void) {
    const char *folder = getenv("STAND_IN_HEADERS");
    return folder ? folder : ".";
}

// Reading what cuda_runtime.h includes takes most of the time of a small kernel, so it is compiled once, where the
// compiler looks first. Without it kernels are compiled all the same.
static void compile_headers(void) {
    char compiled[MAX_PATH], header[MAX_PATH], draft[MAX_PATH + 32], output[MAX_PATH + 32];
    snprintf(compiled, sizeof compiled, "%s/cuda_runtime.h.gch", folder());
    if (!access(compiled, F_OK)) return;
    snprintf(header, sizeof header, "%s/cuda_runtime.h", headers());
    snprintf(draft, sizeof draft, "%s.%d", compiled, getpid());
    snprintf(output, sizeof output, "%s.%d.log", compiled, getpid());
    const char *const words[] = {"c++", OPTIONS, "-x", "c++-header", "-o", draft, header, NULL};
    if (succeeds(words, output)) rename(draft, compiled);
    unlink(output);
}

static bool write_source(const char *path, const char *source, const char *entry) {
    FILE *file = fopen(path, "w");
    if (!file) return false;
    fprintf(file, "%s\nSTAND_IN_ENTRY(%s)\n", source, entry);
    return !fclose(file);
}

// The first line of a file in which a word is.
static void line_with(const char *path, const char *word, char *line, size_t size) {
    FILE *file = fopen(path, "r");
    while (file && fgets(line, (int)size, file))
        if (strstr(line, word)) break;
    if (file) fclose(file);
    line[strcspn(line, "\n")] = 0;
}

static bool refuse(const char *entry, const char *why, char *log, size_t size) {
    snprintf(log, size, "stand-in compiler: kernel %s: %s", entry, why);
    fprintf(stderr, "\n%s\n", log);
    return false;
}

bool compile_native(const char *source, const char *hash, const char *entry, char *log, size_t size) {
    char library[MAX_PATH], path[MAX_PATH + 32], draft[MAX_PATH + 32], output[MAX_PATH + 32];
    snprintf(library, sizeof library, "%s/%s.so", folder(), hash);
    if (!access(library, F_OK)) return true;
    if (strstr(source, "asm")) return refuse(entry, "PTX in it is not emulated", log, size);
    if (strstr(source, "CUtensorMap") || strstr(source, "#include <cuda/")) return refuse(entry, "asynchronous copies are not emulated", log, size);

    // Processes may share the folder, so files are made under another name.
    snprintf(path, sizeof path, "%s.%d.cpp", library, getpid());
    snprintf(draft, sizeof draft, "%s.%d", library, getpid());
    snprintf(output, sizeof output, "%s.%d.log", library, getpid());
    if (!write_source(path, source, entry)) return refuse(entry, "its source cannot be written", log, size);
    compile_headers();
    // The C library that a kernel needs is loaded with the program.
    const char *const words[] = {"c++", OPTIONS, "-nostdlib", "-I", folder(), "-I", headers(), "-o", draft, path, NULL};
    bool is_compiled = succeeds(words, output);
    if (!is_compiled) {
        char line[1024] = "", why[sizeof line + sizeof path + 8];
        line_with(output, "error", line, sizeof line);
        snprintf(why, sizeof why, "%s (%s)", line, path);
        return refuse(entry, why, log, size);
    }
    unlink(path);
    unlink(output);
    return !rename(draft, library);
}
