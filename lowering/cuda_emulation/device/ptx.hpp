// PTX instructions as functions. Their names are those of the instructions with underscores, their arguments the
// instruction's operands in order: `ptx.py` writes the calls.
#pragma once
#include <string.h>

#include <initializer_list>

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "runtime.hpp"

namespace emulated {

// Copies from global to shared memory. Without the last operand all bytes are there.
#define COPY(name)                                                                                   \
  static __forceinline__ void name(uint32_t to, const void* from, int bytes, int present) {          \
    start_copy(to, from, bytes, present);                                                            \
  }                                                                                                  \
  static __forceinline__ void name(uint32_t to, const void* from, int bytes) { start_copy(to, from, bytes, bytes); } \
  static __forceinline__ void name(uint32_t to, uint64_t from, int bytes) { name(to, (const void*)from, bytes); } \
  static __forceinline__ void name(uint32_t to, uint64_t from, int bytes, int present) {             \
    start_copy(to, (const void*)from, bytes, present);                                               \
  }
COPY(cp_async_ca_shared_global)
COPY(cp_async_cg_shared_global)
static inline void cp_async_commit_group() { commit_copies(); }
static inline void cp_async_wait_group(int pending) { wait_for_copies(pending); }
static inline void cp_async_wait_all() {
  commit_copies();
  wait_for_copies(0);
}

// Loads one to four matrices of 8 rows of 16 bytes; lane n has the address of row n % 8 of matrix n / 8.
template <int count, bool is_transposed>
static __forceinline__ void load_matrices(unsigned* to, uint32_t from) {
  if ((int)lane() < 8 * count) check_shared_read(from, 16);
  Shown own = {};
  own.words[0] = from;
  const Shown* all = shown_by(~0u, own, MATRIX_LOAD);
  int row = lane() / 4, pair = lane() % 4 * 2;
  for (int matrix = 0; matrix < count; ++matrix) {
    const Shown* rows = all + matrix * 8;
    uint16_t parts[2];
    for (int at = 0; at < 2; ++at) {
      int from_row = is_transposed ? pair + at : row, column = is_transposed ? row : pair + at;
      memcpy(&parts[at], (uint8_t*)shared_pointer(rows[from_row].words[0]) + 2 * column, 2);
    }
    to[matrix] = parts[0] | (unsigned)parts[1] << 16;
  }
}
#define LOAD_MATRICES(suffix, is_transposed)                                                                         \
  static __forceinline__ void ldmatrix_sync_aligned_m8n8_x1##suffix(unsigned& a, uint32_t from) {                    \
    load_matrices<1, is_transposed>(&a, from);                                                                       \
  }                                                                                                                  \
  static __forceinline__ void ldmatrix_sync_aligned_m8n8_x2##suffix(unsigned& a, unsigned& b, uint32_t from) {       \
    unsigned all[2];                                                                                                 \
    load_matrices<2, is_transposed>(all, from);                                                                      \
    a = all[0], b = all[1];                                                                                          \
  }                                                                                                                  \
  static __forceinline__ void ldmatrix_sync_aligned_m8n8_x4##suffix(                                                 \
      unsigned& a, unsigned& b, unsigned& c, unsigned& d, uint32_t from) {                                           \
    unsigned all[4];                                                                                                 \
    load_matrices<4, is_transposed>(all, from);                                                                      \
    a = all[0], b = all[1], c = all[2], d = all[3];                                                                  \
  }
LOAD_MATRICES(_shared_b16, false)
LOAD_MATRICES(_trans_shared_b16, true)

static inline float widened(half x) { return (float)x; }
static inline float widened(nv_bfloat16 x) { return (float)x; }
static inline int widened(int8_t x) { return x; }
static inline int widened(uint8_t x) { return x; }

template <typename T>
static inline auto element(uint32_t word, int at) {
  T values[4 / sizeof(T)];
  memcpy(values, &word, 4);
  return widened(values[at]);
}

// 16 rows by 8 columns of sums, over 32 bytes along the sum: words 0 to 3 are a lane's part of the left factor, 4 and 5
// its part of the right one.
template <typename Left, typename Right, typename Sum>
static __forceinline__ void multiply(
    Sum& d0, Sum& d1, Sum& d2, Sum& d3, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1,
    Sum c0, Sum c1, Sum c2, Sum c3) {
  constexpr int per_word = 4 / sizeof(Left);
  Shown own = {{a0, a1, a2, a3, b0, b1}};
  const Shown* all = shown_by(~0u, own, MATRIX_PRODUCT);
  Sum sums[4] = {c0, c1, c2, c3};
  for (int at = 0; at < 4; ++at) {
    int row = lane() / 4 + at / 2 * 8, column = lane() % 4 * 2 + at % 2;
    for (int k = 0; k < 8 * per_word; ++k) {
      int from = k % (4 * per_word) / per_word, half_of_k = k / (4 * per_word);
      uint32_t left = all[row % 8 * 4 + from].words[row / 8 + 2 * half_of_k];
      uint32_t right = all[column * 4 + from].words[4 + half_of_k];
      sums[at] += element<Left>(left, k % per_word) * element<Right>(right, k % per_word);
    }
  }
  d0 = sums[0], d1 = sums[1], d2 = sums[2], d3 = sums[3];
}
#define MULTIPLY(name, Left, Right, Sum)                          \
  template <typename... Operands>                                 \
  static __forceinline__ void name(Operands&&... operands) {      \
    multiply<Left, Right, Sum>(operands...);                      \
  }
MULTIPLY(mma_sync_aligned_m16n8k16_row_col_f32_f16_f16_f32, half, half, float)
MULTIPLY(mma_sync_aligned_m16n8k16_row_col_f32_bf16_bf16_f32, nv_bfloat16, nv_bfloat16, float)
MULTIPLY(mma_sync_aligned_m16n8k32_row_col_s32_s8_s8_s32, int8_t, int8_t, int)
MULTIPLY(mma_sync_aligned_m16n8k32_row_col_s32_u8_u8_s32, uint8_t, uint8_t, int)
MULTIPLY(mma_sync_aligned_m16n8k32_row_col_s32_s8_u8_s32, int8_t, uint8_t, int)
MULTIPLY(mma_sync_aligned_m16n8k32_row_col_s32_u8_s8_s32, uint8_t, int8_t, int)

// A tile in shared memory as instructions of warpgroups know it, in lines of 128 bytes. Lines are along the sum, or,
// of 16-bit elements, across it.
struct Tile {
  uint32_t start, leading, stride;
  bool is_across;

  Tile(uint64_t description, bool is_across)
      : start((description & 0x3fff) << 4), leading((description >> 16 & 0x3fff) << 4),
        stride((description >> 32 & 0x3fff) << 4), is_across(is_across) {
    if (description >> 62 != 1) trap();  // the only layout here is swizzled by 128 bytes
  }

  // The address of the element at `kept`, and `k` along the sum.
  uint32_t address(uint32_t kept, uint32_t k, uint32_t bytes) const {
    uint32_t at = is_across ? start + kept / 64 * leading + k / 8 * stride + k % 8 * 128 + kept % 64 * 2
                            : start + kept / 8 * stride + kept % 8 * 128 + k * bytes;
    return at ^ (at >> 7 & 7) << 4;
  }

  // Each lane checks some of the 16 bytes that its warp reads of elements from `first` on.
  void check_reads(uint32_t first, uint32_t count) const {
    for (uint32_t chunk = lane(); chunk < count * 2; chunk += 32)
      start_product_read(
          is_across ? address(first + chunk / 16 * 8, chunk % 16, 2) : address(first + chunk / 2, chunk % 2 * 16, 1), 16);
  }

  template <typename T>
  T element(uint32_t kept, uint32_t k) const {
    T value;
    memcpy(&value, shared_pointer(address(kept, k, sizeof value)), sizeof value);
    return value;
  }
};

// 64 rows of four warps by `columns`, over 32 bytes along the sum; a warp has 16 of the rows. `row_element` gives an
// element of the left factor.
template <typename T, typename Right, int columns, typename Sum, typename Row>
static __forceinline__ void multiply_rows(Sum* const* sums, const Tile& right, Row row_element) {
  right.check_reads(0, columns);
  for (int at = 0; at < columns / 2; ++at) {
    uint32_t row = lane() / 4 + at / 2 % 2 * 8, column = at / 4 * 8 + lane() % 4 * 2 + at % 2;
    for (uint32_t k = 0; k < 32 / sizeof(T); ++k)
      *sums[at] += row_element(row, k) * widened(right.element<Right>(column, k));
  }
}

template <typename T, typename Right, int columns, typename Sum>
static void multiply_tiles(Sum* const* sums, const Tile& left, const Tile& right) {
  shown_by(~0u, {}, GROUP_PRODUCT);
  uint32_t first = warp() % 4 * 16;
  left.check_reads(first, 16);
  multiply_rows<T, Right, columns>(
      sums, right, [&](uint32_t row, uint32_t k) { return widened(left.element<T>(first + row, k)); });
}

using Parts = std::initializer_list<unsigned>;
// The left factor is in registers, as that of a product of one warp.
template <typename T, int columns, typename Sum>
static void multiply_parts(Sum* const* sums, Parts left, const Tile& right) {
  Shown own = {};
  for (int word = 0; word < 4; ++word) own.words[word] = left.begin()[word];
  const Shown* shown = shown_by(~0u, own, GROUP_PRODUCT);
  Shown all[32];
  memcpy(all, shown, sizeof all);
  multiply_rows<T, T, columns>(sums, right, [&](uint32_t row, uint32_t k) {
    return element<T>(all[row % 8 * 4 + k % 8 / 2].words[row / 8 + k / 8 * 2], k % 2);
  });
}

template <typename Sum>
using Registers = std::initializer_list<Sum*>;
#define MULTIPLY_TILES(columns, name, T)                                                                        \
  static inline void wgmma_mma_async_sync_aligned_m64n##columns##k16_f32_##name(                                \
      Registers<float> sums, uint64_t left, uint64_t right, int, int, int, int left_across, int right_across) { \
    multiply_tiles<T, T, columns>(sums.begin(), Tile(left, left_across), Tile(right, right_across));            \
  }                                                                                                             \
  static inline void wgmma_mma_async_sync_aligned_m64n##columns##k16_f32_##name(                                \
      Registers<float> sums, Parts left, uint64_t right, int, int, int, int right_across) {                     \
    multiply_parts<T, columns>(sums.begin(), left, Tile(right, right_across));                                  \
  }
#define MULTIPLY_BYTES(columns, name, Left, Right)                                     \
  static inline void wgmma_mma_async_sync_aligned_m64n##columns##k32_s32_##name(       \
      Registers<int> sums, uint64_t left, uint64_t right, int) {                       \
    multiply_tiles<Left, Right, columns>(sums.begin(), Tile(left, false), Tile(right, false)); \
  }
#define MULTIPLY_TILES_OF(columns)                       \
  MULTIPLY_TILES(columns, f16_f16, half)                 \
  MULTIPLY_TILES(columns, bf16_bf16, nv_bfloat16)        \
  MULTIPLY_BYTES(columns, s8_s8, int8_t, int8_t)         \
  MULTIPLY_BYTES(columns, u8_u8, uint8_t, uint8_t)       \
  MULTIPLY_BYTES(columns, s8_u8, int8_t, uint8_t)        \
  MULTIPLY_BYTES(columns, u8_s8, uint8_t, int8_t)
MULTIPLY_TILES_OF(64)
MULTIPLY_TILES_OF(128)
MULTIPLY_TILES_OF(256)
static inline void wgmma_fence_sync_aligned() {}
static inline void wgmma_commit_group_sync_aligned() { commit_products(); }
static inline void wgmma_wait_group_sync_aligned(int pending) { wait_for_products(pending); }
static inline void fence_proxy_async_shared__cta() { show_writes(); }

}  // namespace emulated
