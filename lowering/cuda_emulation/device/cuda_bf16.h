// CUDA's bfloat16: the upper half of a float, rounded to nearest even.
#pragma once
#include "cuda.h"

struct nv_bfloat16 {
  uint16_t bits;

  nv_bfloat16() = default;
  explicit nv_bfloat16(float value) {
    uint32_t word = bits_as<uint32_t>(value);
    bool is_nan = value != value;
    bits = is_nan ? 0x7fff : uint16_t((word + 0x7fff + (word >> 16 & 1)) >> 16);
  }
  explicit nv_bfloat16(double value) : nv_bfloat16((float)value) {}
  explicit nv_bfloat16(int value) : nv_bfloat16((float)value) {}
  operator float() const { return bits_as<float>((uint32_t)bits << 16); }
};
typedef nv_bfloat16 __nv_bfloat16;
struct alignas(4) nv_bfloat162 {
  nv_bfloat16 x, y;

  nv_bfloat162() = default;
  nv_bfloat162(nv_bfloat16 x, nv_bfloat16 y) : x(x), y(y) {}
};
typedef nv_bfloat162 __nv_bfloat162;

static inline nv_bfloat162 make_bfloat162(nv_bfloat16 x, nv_bfloat16 y) { return {x, y}; }
static inline nv_bfloat16 __float2bfloat16(float x) { return nv_bfloat16(x); }
static inline nv_bfloat16 __float2bfloat16_rn(float x) { return nv_bfloat16(x); }
static inline float __bfloat162float(nv_bfloat16 x) { return (float)x; }
static inline bool __hgt(nv_bfloat16 a, nv_bfloat16 b) { return (float)a > (float)b; }
static inline bool __hlt(nv_bfloat16 a, nv_bfloat16 b) { return (float)a < (float)b; }
static inline nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
  nv_bfloat16 value;
  memcpy(&value, &bits, 2);
  return value;
}
static inline unsigned short __bfloat16_as_ushort(nv_bfloat16 value) { return value.bits; }
