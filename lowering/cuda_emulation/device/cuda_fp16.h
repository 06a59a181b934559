// CUDA's 16-bit floats: arithmetic rounds after every operation.
#pragma once
#include "cuda.h"

typedef _Float16 half;
typedef _Float16 __half;
struct alignas(4) half2 {
  half x, y;

  half2() = default;
  half2(half x, half y) : x(x), y(y) {}
};
typedef half2 __half2;

static inline half2 make_half2(half x, half y) { return {x, y}; }
static inline half __float2half(float x) { return (half)x; }
static inline half __float2half_rn(float x) { return (half)x; }
static inline half __double2half(double x) { return (half)x; }
static inline float __half2float(half x) { return (float)x; }
static inline bool __hgt(half a, half b) { return a > b; }
static inline bool __hlt(half a, half b) { return a < b; }
static inline half __hadd(half a, half b) { return a + b; }
static inline half __hmul(half a, half b) { return a * b; }
static inline bool __hisnan(half a) { return a != a; }
static inline half __ushort_as_half(unsigned short bits) {
  half value;
  memcpy(&value, &bits, 2);
  return value;
}
static inline unsigned short __half_as_ushort(half value) {
  unsigned short bits;
  memcpy(&bits, &value, 2);
  return bits;
}
#define HALF_FUNCTION(name, function) \
  static inline half name(half x) { return (half)function((float)x); }
HALF_FUNCTION(hexp, expf)
HALF_FUNCTION(hexp2, exp2f)
HALF_FUNCTION(hlog, logf)
HALF_FUNCTION(hlog2, log2f)
HALF_FUNCTION(hlog10, log10f)
HALF_FUNCTION(hsqrt, sqrtf)
HALF_FUNCTION(hrsqrt, rsqrtf)
HALF_FUNCTION(hsin, sinf)
HALF_FUNCTION(hcos, cosf)
HALF_FUNCTION(htanh, tanhf)
HALF_FUNCTION(htan, tanf)
HALF_FUNCTION(hatan, atanf)
HALF_FUNCTION(herf, erff)
HALF_FUNCTION(hfloor, floorf)
HALF_FUNCTION(hceil, ceilf)
HALF_FUNCTION(htrunc, truncf)
HALF_FUNCTION(hrint, rintf)
HALF_FUNCTION(__habs, fabsf)
static inline half hpow(half x, half y) { return (half)powf((float)x, (float)y); }
