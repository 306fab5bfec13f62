// What 16-bit floats have in common: a pair of them, and functions that compute in F32 and round once. Kernels include
// cuda_runtime.h before it.
#pragma once

// The nearest F32 below or above that loses no later rounding: if a bit is lost, the last one is set.
static inline float stand_in_to_odd(double x) {
    float rounded = float(x);
    if (double(rounded) == x || x != x) return rounded;
    uint32_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    bool is_away = (x < 0 ? -double(rounded) : double(rounded)) > (x < 0 ? -x : x);
    if (is_away) bits--;
    bits |= 1;
    memcpy(&rounded, &bits, sizeof rounded);
    return rounded;
}

// The type H and its pair H2, with all of it but the functions `round` and `widened`.
#define STAND_IN_HALF(H, H2) \
    struct __attribute__((aligned(2))) H { \
        uint16_t bits; \
        H() = default; \
        H(float x) : bits(round(x)) {} \
        H(double x) : bits(round(stand_in_to_odd(x))) {} \
        H(int x) : H(double(x)) {} \
        H(unsigned x) : H(double(x)) {} \
        H(long long x) : H(double(x)) {} \
        H(unsigned long long x) : H(double(x)) {} \
        H(short x) : H(float(x)) {} \
        H(unsigned short x) : H(float(x)) {} \
        H(signed char x) : H(float(x)) {} \
        H(unsigned char x) : H(float(x)) {} \
        H(bool x) : H(float(x)) {} \
        operator float() const { return widened(bits); } \
        H &operator+=(H other) { return *this = H(float(*this) + float(other)); } \
        H &operator-=(H other) { return *this = H(float(*this) - float(other)); } \
        H &operator*=(H other) { return *this = H(float(*this) * float(other)); } \
        H &operator/=(H other) { return *this = H(float(*this) / float(other)); } \
        static uint16_t round(float x); \
        static float widened(uint16_t bits); \
    }; \
    static inline H operator+(H a, H b) { return a += b; } \
    static inline H operator-(H a, H b) { return a -= b; } \
    static inline H operator*(H a, H b) { return a *= b; } \
    static inline H operator/(H a, H b) { return a /= b; } \
    static inline H operator-(H a) { a.bits ^= 0x8000; return a; } \
    static inline bool operator==(H a, H b) { return float(a) == float(b); } \
    static inline bool operator!=(H a, H b) { return float(a) != float(b); } \
    static inline bool operator<(H a, H b) { return float(a) < float(b); } \
    static inline bool operator<=(H a, H b) { return float(a) <= float(b); } \
    static inline bool operator>(H a, H b) { return float(a) > float(b); } \
    static inline bool operator>=(H a, H b) { return float(a) >= float(b); } \
    struct __attribute__((aligned(4))) H2 { \
        H x, y; \
        H2() = default; \
        H2(H x, H y) : x(x), y(y) {} \
        H2(H both) : x(both), y(both) {} \
    }; \
    static inline H2 operator+(H2 a, H2 b) { return {a.x + b.x, a.y + b.y}; } \
    static inline H2 operator-(H2 a, H2 b) { return {a.x - b.x, a.y - b.y}; } \
    static inline H2 operator*(H2 a, H2 b) { return {a.x * b.x, a.y * b.y}; } \
    static inline H2 operator/(H2 a, H2 b) { return {a.x / b.x, a.y / b.y}; } \
    static inline H2 operator-(H2 a) { return {-a.x, -a.y}; } \
    static inline bool __hisnan(H a) { return isnan(float(a)); } \
    static inline bool __hisinf(H a) { return isinf(float(a)); } \
    static inline H __habs(H a) { a.bits &= 0x7fff; return a; } \
    static inline H __hmax(H a, H b) { return H(fmaxf(a, b)); } \
    static inline H __hmin(H a, H b) { return H(fminf(a, b)); } \
    static inline H2 __hmax2(H2 a, H2 b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; } \
    static inline H2 __hmin2(H2 a, H2 b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; } \
    static inline H __hfma(H a, H b, H c) { return H(fmaf(a, b, c)); } \
    STAND_IN_HALF_FUNCTION(H, H2, exp, expf) \
    STAND_IN_HALF_FUNCTION(H, H2, log, logf) \
    STAND_IN_HALF_FUNCTION(H, H2, sin, sinf) \
    STAND_IN_HALF_FUNCTION(H, H2, cos, cosf) \
    STAND_IN_HALF_FUNCTION(H, H2, sqrt, sqrtf) \
    STAND_IN_HALF_FUNCTION(H, H2, rsqrt, rsqrt) \
    STAND_IN_HALF_FUNCTION(H, H2, ceil, ceilf) \
    STAND_IN_HALF_FUNCTION(H, H2, floor, floorf) \
    STAND_IN_HALF_FUNCTION(H, H2, trunc, truncf) \
    STAND_IN_HALF_FUNCTION(H, H2, rint, rintf)

#define STAND_IN_HALF_FUNCTION(H, H2, name, of_float) \
    static inline H h##name(H a) { return H(of_float(float(a))); } \
    static inline H2 h2##name(H2 a) { return {h##name(a.x), h##name(a.y)}; }
