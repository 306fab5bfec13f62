// F16 of CUDA for the host's C++ compiler: stored in 16 bits, computed in F32 and rounded to the nearest, ties to even.
#pragma once
#include <stand_in_half.h>

STAND_IN_HALF(__half, __half2)

inline uint16_t __half::round(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint16_t sign = bits >> 16 & 0x8000;
    uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return sign | 0x7fff;  // NaN
    if (magnitude >= 0x477ff000) return sign | 0x7c00; // 65520, half way between the largest number and 65536: infinity
    if (magnitude < 0x38800000) {                      // below 2^-14: a multiple of 2^-24
        float scaled;
        memcpy(&scaled, &magnitude, sizeof scaled);
        return sign | uint16_t(rintf(scaled * 0x1p24f));
    }
    uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    return sign | uint16_t((rounded >> 13) - (112 << 10));
}

inline float __half::widened(uint16_t bits) {
    uint32_t sign = uint32_t(bits & 0x8000) << 16, exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
    if (exponent == 0) return sign ? -(fraction * 0x1p-24f) : fraction * 0x1p-24f;
    uint32_t wide = sign | (exponent == 31 ? 255 : exponent + 112) << 23 | fraction << 13;
    float x;
    memcpy(&x, &wide, sizeof x);
    return x;
}
