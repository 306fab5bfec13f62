// CUDA C++ for the host's C++ compiler: what kernels that CubeCL writes find in cuda_runtime.h.
//
// Each thread of a block runs as a fiber of the stand-in driver, see ../blocks.c. What is not here is an error of the compiler,
// which names it.
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <utility>

#define __global__ __attribute__((visibility("default")))
#define __device__
#define __shared__
#define __constant__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

// Where a thread is ------------------------------------------------------------------------------------------------------

struct uint3 {
    unsigned x, y, z;
};
static inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }

// As in ../emulation.h.
struct place {
    uint3 thread, block, block_size, grid_size;
    unsigned lane;
};
enum meeting { MEET_BLOCK = 1, MEET_WARP, MEET_SHUFFLE, MEET_BALLOT, MEET_MATRIX };
enum { SLOTS_BYTES = 4096 };
extern "C" {
extern place stand_in_place;
void stand_in_meet(int meeting);
void *stand_in_slots();
unsigned stand_in_lanes();
}
#define threadIdx (stand_in_place.thread)
#define blockIdx (stand_in_place.block)
#define blockDim (stand_in_place.block_size)
#define gridDim (stand_in_place.grid_size)
static constexpr int warpSize = 32;

// What the driver calls.
template <typename... Arguments, size_t... Index>
static inline void stand_in_call(void (*kernel)(Arguments...), void **arguments, std::index_sequence<Index...>) {
    kernel(*static_cast<std::remove_reference_t<Arguments> *>(arguments[Index])...);
}
template <typename... Arguments> static inline void stand_in_call(void (*kernel)(Arguments...), void **arguments) {
    stand_in_call(kernel, arguments, std::index_sequence_for<Arguments...>());
}
#define STAND_IN_ENTRY(kernel) \
    extern "C" __global__ void stand_in_entry(void **arguments) { stand_in_call(kernel, arguments); }

// Barriers, shuffles, votes ----------------------------------------------------------------------------------------------

static inline void __syncthreads() { stand_in_meet(MEET_BLOCK); }
static inline void __syncwarp(unsigned = ~0u) { stand_in_meet(MEET_WARP); }
static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline unsigned __activemask() { return stand_in_lanes(); }

// What the lanes of a warp show each other.
template <typename T> struct stand_in_shown {
    T of_lane[warpSize];
    static stand_in_shown &next() {
        static_assert(sizeof(stand_in_shown) <= SLOTS_BYTES, "what lanes show fits into the warp's slots");
        return *static_cast<stand_in_shown *>(stand_in_slots());
    }
};
template <typename T> static inline T stand_in_shuffle(T value, unsigned from) {
    auto &shown = stand_in_shown<T>::next();
    shown.of_lane[stand_in_place.lane] = value;
    stand_in_meet(MEET_SHUFFLE);
    return shown.of_lane[from % warpSize];
}
template <typename T> static inline T __shfl_sync(unsigned, T value, int lane) { return stand_in_shuffle(value, lane); }
template <typename T> static inline T __shfl_xor_sync(unsigned, T value, int mask) { return stand_in_shuffle(value, stand_in_place.lane ^ mask); }
template <typename T> static inline T __shfl_up_sync(unsigned, T value, unsigned delta) {
    unsigned lane = stand_in_place.lane;
    return stand_in_shuffle(value, lane >= delta ? lane - delta : lane);
}
template <typename T> static inline T __shfl_down_sync(unsigned, T value, unsigned delta) {
    unsigned lane = stand_in_place.lane;
    return stand_in_shuffle(value, lane + delta < warpSize ? lane + delta : lane);
}
static inline unsigned __ballot_sync(unsigned, int vote) {
    auto &shown = stand_in_shown<bool>::next();
    shown.of_lane[stand_in_place.lane] = vote != 0;
    unsigned present = stand_in_lanes(), votes = 0;
    stand_in_meet(MEET_BALLOT);
    for (unsigned lane = 0; lane < warpSize; lane++)
        if (present >> lane & 1 && shown.of_lane[lane]) votes |= 1u << lane;
    return votes;
}
static inline int __any_sync(unsigned mask, int vote) { return __ballot_sync(mask, vote) != 0; }
static inline int __all_sync(unsigned mask, int vote) { return __ballot_sync(mask, !vote) == 0; }

// Threads of a process run one after the other, so an atomic operation is one that does not wait in between.
template <typename T, typename F> static inline T stand_in_exchange(T *at, F next) {
    T old = *at;
    *at = next(old);
    return old;
}
// The second argument is converted to the first one's type, as in CUDA's overloads.
template <typename T> struct stand_in_same { using type = T; };
template <typename T> using stand_in_as = typename stand_in_same<T>::type;
template <typename T> static inline T atomicAdd(T *at, stand_in_as<T> by) { return stand_in_exchange(at, [=](T old) { return T(old + by); }); }
template <typename T> static inline T atomicSub(T *at, stand_in_as<T> by) { return stand_in_exchange(at, [=](T old) { return T(old - by); }); }
template <typename T> static inline T atomicMax(T *at, stand_in_as<T> other) { return stand_in_exchange(at, [=](T old) { return old < other ? other : old; }); }
template <typename T> static inline T atomicMin(T *at, stand_in_as<T> other) { return stand_in_exchange(at, [=](T old) { return other < old ? other : old; }); }
template <typename T> static inline T atomicAnd(T *at, stand_in_as<T> mask) { return stand_in_exchange(at, [=](T old) { return T(old & mask); }); }
template <typename T> static inline T atomicOr(T *at, stand_in_as<T> mask) { return stand_in_exchange(at, [=](T old) { return T(old | mask); }); }
template <typename T> static inline T atomicXor(T *at, stand_in_as<T> mask) { return stand_in_exchange(at, [=](T old) { return T(old ^ mask); }); }
template <typename T> static inline T atomicExch(T *at, stand_in_as<T> value) { return stand_in_exchange(at, [=](T) { return value; }); }
template <typename T> static inline T atomicCAS(T *at, stand_in_as<T> expected, stand_in_as<T> value) {
    return stand_in_exchange(at, [=](T old) { return old == expected ? value : old; });
}

// Arithmetic -------------------------------------------------------------------------------------------------------------

// Of a NaN and a number the number, as in PTX.
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline float min(float a, float b) { return fminf(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }
template <typename R> static inline R stand_in_max(R a, R b) { return a > b ? a : b; }
template <typename R> static inline R stand_in_min(R a, R b) { return a < b ? a : b; }
#define STAND_IN_MAX_MIN(A, B, R) \
    static inline R max(A a, B b) { return stand_in_max<R>(a, b); } \
    static inline R min(A a, B b) { return stand_in_min<R>(a, b); }
STAND_IN_MAX_MIN(int, int, int)
STAND_IN_MAX_MIN(unsigned, unsigned, unsigned)
STAND_IN_MAX_MIN(int, unsigned, unsigned)
STAND_IN_MAX_MIN(unsigned, int, unsigned)
STAND_IN_MAX_MIN(long long, long long, long long)
STAND_IN_MAX_MIN(unsigned long long, unsigned long long, unsigned long long)
STAND_IN_MAX_MIN(long long, unsigned long long, unsigned long long)
STAND_IN_MAX_MIN(unsigned long long, long long, unsigned long long)

static inline float rsqrt(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline float rhypotf(float x, float y) { return 1.0f / hypotf(x, y); }
static inline double rhypot(double x, double y) { return 1.0 / hypot(x, y); }

// Fast forms, computed exactly here. The names of some are functions inside of glibc, so they are macros.
#define __expf(x) expf(x)
#define __logf(x) logf(x)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __tanhf(x) tanhf(x)
#define __powf(x, y) powf(x, y)
static inline float __fdividef(float x, float y) { return x / y; }
static inline float __frcp_rn(float x) { return 1.0f / x; }
static inline float __fsqrt_rn(float x) { return sqrtf(x); }
static inline float __frsqrt_rn(float x) { return 1.0f / sqrtf(x); }

static inline int __mulhi(int a, int b) { return int((long long)a * b >> 32); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }
static inline long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) { return (unsigned long long)((unsigned __int128)a * b >> 64); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline unsigned __brev(unsigned x) {
    unsigned reversed = 0;
    for (int bit = 0; bit < 32; bit++) reversed |= (x >> bit & 1) << (31 - bit);
    return reversed;
}
static inline unsigned long long __brevll(unsigned long long x) { return (unsigned long long)__brev(unsigned(x)) << 32 | __brev(unsigned(x >> 32)); }
