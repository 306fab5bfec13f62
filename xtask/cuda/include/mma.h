// Products of small matrices by a warp, CUDA's wmma, for the host's C++ compiler.
//
// A fragment has its elements spread over the lanes: element `e` of lane `l` is the tile's element `32 * e + l`, row by row.
// Which lane has which element is not specified in CUDA either. Products are summed in F32, in the order of k.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace nvcuda {
namespace wmma {

struct row_major {};
struct col_major {};
struct matrix_a {};
struct matrix_b {};
struct accumulator {};
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32 {};
}

static inline float __float_to_tf32(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7f800000) != 0x7f800000) bits = (bits + 0x1000) & 0xffffe000; // to the nearest, ties away from zero
    memcpy(&x, &bits, sizeof x);
    return x;
}

template <typename Use, int M, int N, int K> struct size_of;
template <int M, int N, int K> struct size_of<matrix_a, M, N, K> { enum { rows = M, columns = K }; };
template <int M, int N, int K> struct size_of<matrix_b, M, N, K> { enum { rows = K, columns = N }; };
template <int M, int N, int K> struct size_of<accumulator, M, N, K> { enum { rows = M, columns = N }; };

template <typename T> struct stored { using type = T; };
template <> struct stored<precision::tf32> { using type = float; };

template <typename Use, int M, int N, int K, typename T, typename Layout = void> struct fragment {
    using element = typename stored<T>::type;
    enum { rows = size_of<Use, M, N, K>::rows, columns = size_of<Use, M, N, K>::columns, num_elements = rows * columns / warpSize };
    element x[num_elements];
};

// Calls `visit(element of this lane, row, column)`.
template <typename Fragment, typename Visit> static inline void each_element(Fragment &fragment, Visit visit) {
    for (int e = 0; e < Fragment::num_elements; e++) {
        int at = e * warpSize + int(stand_in_place.lane);
        visit(fragment.x[e], at / Fragment::columns, at % Fragment::columns);
    }
}

template <typename Fragment, typename T> static inline void fill_fragment(Fragment &fragment, T value) {
    for (auto &element : fragment.x) element = typename Fragment::element(value);
}

// What other lanes wrote to memory before is there, and they write again only when all have read.
template <typename Fragment, typename T> static inline void load_matrix_sync(Fragment &fragment, const T *from, unsigned stride, layout_t layout) {
    stand_in_meet(MEET_MATRIX);
    each_element(fragment, [=](auto &element, int row, int column) {
        element = typename Fragment::element(layout == mem_row_major ? from[row * stride + column] : from[column * stride + row]);
    });
    stand_in_meet(MEET_MATRIX);
}
template <typename Use, int M, int N, int K, typename T, typename P>
static inline void load_matrix_sync(fragment<Use, M, N, K, T, row_major> &fragment, const P *from, unsigned stride) {
    load_matrix_sync(fragment, from, stride, mem_row_major);
}
template <typename Use, int M, int N, int K, typename T, typename P>
static inline void load_matrix_sync(fragment<Use, M, N, K, T, col_major> &fragment, const P *from, unsigned stride) {
    load_matrix_sync(fragment, from, stride, mem_col_major);
}

template <typename Fragment, typename T> static inline void store_matrix_sync(T *to, Fragment &fragment, unsigned stride, layout_t layout) {
    stand_in_meet(MEET_MATRIX);
    each_element(fragment, [=](auto &element, int row, int column) { to[layout == mem_row_major ? row * stride + column : column * stride + row] = T(element); });
    stand_in_meet(MEET_MATRIX);
}

template <int M, int N, int K, typename T, typename A, typename B, typename C, typename D>
static inline void mma_sync(fragment<accumulator, M, N, K, D> &d, fragment<matrix_a, M, N, K, T, A> &a, fragment<matrix_b, M, N, K, T, B> &b,
                            fragment<accumulator, M, N, K, C> &c) {
    float *tile_a = static_cast<float *>(stand_in_slots()), *tile_b = tile_a + M * K;
    static_assert((M + N) * K * sizeof(float) <= SLOTS_BYTES, "the warp's slots hold both tiles");
    each_element(a, [=](auto &element, int row, int column) { tile_a[row * K + column] = float(element); });
    each_element(b, [=](auto &element, int row, int column) { tile_b[row * N + column] = float(element); });
    stand_in_meet(MEET_MATRIX);
    for (int e = 0; e < M * N / warpSize; e++) {
        int at = e * warpSize + int(stand_in_place.lane), row = at / N, column = at % N;
        float sum = float(c.x[e]);
        for (int k = 0; k < K; k++) sum += tile_a[row * K + k] * tile_b[k * N + column];
        d.x[e] = D(sum);
    }
}

} // namespace wmma
} // namespace nvcuda
