// BF16 of CUDA for the host's C++ compiler: stored in 16 bits, computed in F32 and rounded to the nearest, ties to even.
#pragma once
#include <stand_in_half.h>

STAND_IN_HALF(__nv_bfloat16, __nv_bfloat162)

inline uint16_t __nv_bfloat16::round(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff; // NaN
    return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline float __nv_bfloat16::widened(uint16_t bits) {
    uint32_t wide = uint32_t(bits) << 16;
    float x;
    memcpy(&x, &wide, sizeof x);
    return x;
}
