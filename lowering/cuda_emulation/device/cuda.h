// CUDA's vocabulary for a C++ compiler: qualifiers, vectors, what threads of a block and lanes of a warp do together.
//
// The emitted source includes it under the name of CUDA's own header.
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <type_traits>
#include <utility>

#include "runtime.hpp"

#define __global__
#define __device__
#define __host__
#define __constant__ static const
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) alignas(bytes)
#define UNCHECKED __attribute__((no_sanitize("thread"), noinline))

typedef unsigned char uchar;

#define VECTORS(type, name, size)                                             \
  struct alignas(2 * size) name##2 { type x, y; };                            \
  struct name##3 { type x, y, z; };                                           \
  struct alignas(4 * size > 16 ? 16 : 4 * size) name##4 { type x, y, z, w; }; \
  static inline name##2 make_##name##2(type x, type y) { return {x, y}; }     \
  static inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; } \
  static inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
VECTORS(signed char, char, 1)
VECTORS(unsigned char, uchar, 1)
VECTORS(short, short, 2)
VECTORS(unsigned short, ushort, 2)
VECTORS(int, int, 4)
VECTORS(unsigned int, uint, 4)
VECTORS(long long, longlong, 8)
VECTORS(unsigned long long, ulonglong, 8)
VECTORS(float, float, 4)
VECTORS(double, double, 8)

template <typename A, typename B>
using Common = std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>, std::common_type_t<A, B>>;
template <typename A, typename B>
static inline Common<A, B> min(A a, B b) {
  if constexpr (std::is_floating_point_v<Common<A, B>>) return fmin(a, b);
  return (Common<A, B>)b < (Common<A, B>)a ? b : a;
}
template <typename A, typename B>
static inline Common<A, B> max(A a, B b) {
  if constexpr (std::is_floating_point_v<Common<A, B>>) return fmax(a, b);
  return (Common<A, B>)a < (Common<A, B>)b ? b : a;
}

// Bits.

template <typename To, typename From>
static inline To bits_as(From value) {
  static_assert(sizeof(To) == sizeof(From));
  To result;
  memcpy(&result, &value, sizeof result);
  return result;
}
static inline float __int_as_float(int bits) { return bits_as<float>(bits); }
static inline float __uint_as_float(unsigned bits) { return bits_as<float>(bits); }
static inline int __float_as_int(float value) { return bits_as<int>(value); }
static inline unsigned __float_as_uint(float value) { return bits_as<unsigned>(value); }
static inline double __longlong_as_double(long long bits) { return bits_as<double>(bits); }
static inline long long __double_as_longlong(double value) { return bits_as<long long>(value); }
static inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
static inline int __popcll(unsigned long long bits) { return __builtin_popcountll(bits); }
static inline int __clz(int bits) { return bits ? __builtin_clz(bits) : 32; }
static inline int __clzll(long long bits) { return bits ? __builtin_clzll(bits) : 64; }
static inline int __ffs(int bits) { return __builtin_ffs(bits); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned long long)a * b >> 32; }
static inline int __mulhi(int a, int b) { return (long long)a * b >> 32; }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned __int128)a * b >> 64;
}

// Arithmetic whose rounding is named, and the fast functions, here as exact as the others.

static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fsqrt_rn(float a) { return sqrtf(a); }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dsub_rn(double a, double b) { return a - b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __ddiv_rn(double a, double b) { return a / b; }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
static inline float __fdividef(float a, float b) { return a / b; }
#define __expf expf
#define __exp10f exp10f
#define __logf logf
#define __log2f log2f
#define __log10f log10f
#define __powf powf
#define __sinf sinf
#define __cosf cosf
#define __tanf tanf
static inline float rsqrtf(float a) { return 1 / sqrtf(a); }
static inline double rsqrt(double a) { return 1 / sqrt(a); }
template <typename T>
static inline T __ldg(const T* from) { return *from; }

// Threads.

#define __syncthreads() emulated::barrier(__LINE__)
static __forceinline__ void __syncwarp(unsigned mask = ~0u) { emulated::warp_barrier(mask); }
static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __threadfence_system() {}
#define __trap() emulated::trap()
static inline unsigned __activemask() { return emulated::active_lanes(); }
#define warpSize 32

// Shuffles: each lane shows a value, and takes that of the lane that the function names. All lanes of a mask have to be
// at the same line: macros pass it.

template <typename T, typename Lane>
static __forceinline__ T shuffled(int line, unsigned mask, T value, Lane source_of, int width) {
  static_assert(sizeof(T) <= 32);
  emulated::Shown own = {};
  memcpy(&own, &value, sizeof value);
  const emulated::Shown* all = emulated::shown_by(mask, own, line);
  int lane = emulated::lane(), first = lane / width * width, source = source_of(lane - first);
  if (source < 0 || source >= width) return value;
  emulated::check_shown(mask, first + source);
  memcpy(&value, &all[first + source], sizeof value);
  return value;
}
#define SHUFFLE(name, Operand, source)                                                         \
  template <typename T>                                                                        \
  static __forceinline__ T name(int line, unsigned mask, T value, Operand by, int width = 32) { \
    return shuffled(line, mask, value, [=](int own) { return source; }, width);               \
  }
SHUFFLE(shuffled_from, int, by % width)
SHUFFLE(shuffled_up, unsigned, own - (int)by)
SHUFFLE(shuffled_down, unsigned, own + (int)by)
SHUFFLE(shuffled_across, int, own ^ by)
static __forceinline__ unsigned voted(int line, unsigned mask, int is_true) {
  emulated::Shown own = {};
  own.words[0] = is_true != 0;
  const emulated::Shown* all = emulated::shown_by(mask, own, line);
  unsigned lanes = 0;
  for (int lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1) lanes |= all[lane].words[0] << lane;
  return lanes;
}
#define __shfl_sync(...) shuffled_from(__LINE__, __VA_ARGS__)
#define __shfl_up_sync(...) shuffled_up(__LINE__, __VA_ARGS__)
#define __shfl_down_sync(...) shuffled_down(__LINE__, __VA_ARGS__)
#define __shfl_xor_sync(...) shuffled_across(__LINE__, __VA_ARGS__)
#define __ballot_sync(...) voted(__LINE__, __VA_ARGS__)
#define __any_sync(mask, is_true) (voted(__LINE__, mask, is_true) != 0)
#define __all_sync(mask, is_true) (voted(__LINE__, mask, !(is_true)) == 0)

// Atomics: no other thread runs meanwhile, so that an ordinary update is one.

template <typename T, typename Update>
UNCHECKED static T updated(T* at, Update update) {
  T before;
  __builtin_memcpy(&before, at, sizeof before);
  T after = update(before);
  __builtin_memcpy(at, &after, sizeof after);
  return before;
}
#define ATOMIC(name, expression)                                         \
  template <typename T, typename V>                                      \
  static __forceinline__ T name(T* at, V operand) {                      \
    emulated::check_atomic(at, sizeof *at);                              \
    T value = (T)operand;                                                \
    return updated(at, [=](T before) { return (T)(expression); });       \
  }
ATOMIC(atomicAdd, before + value)
ATOMIC(atomicSub, before - value)
ATOMIC(atomicMin, value < before ? value : before)
ATOMIC(atomicMax, before < value ? value : before)
ATOMIC(atomicAnd, before & value)
ATOMIC(atomicOr, before | value)
ATOMIC(atomicXor, before ^ value)
ATOMIC(atomicExch, value)
template <typename T, typename C, typename V>
static __forceinline__ T atomicCAS(T* at, C compare, V operand) {
  emulated::check_atomic(at, sizeof *at);
  T expected = (T)compare, value = (T)operand;
  return updated(at, [=](T before) { return before == expected ? value : before; });
}

// Shared memory has addresses of 32 bits in PTX.

static inline uint32_t __cvta_generic_to_shared(const void* pointer) { return emulated::shared_address(pointer); }

#include "ptx.hpp"

// The function that TVM's host code calls for a kernel.

namespace emulated {

template <typename T>
static inline T unpacked(const Argument& argument) {
  if constexpr (std::is_pointer_v<T>) return (T)argument.pointer;
  else if constexpr (std::is_floating_point_v<T>) return (T)argument.number;
  else return (T)argument.integer;
}

template <typename T>
constexpr int element_bytes() {
  if constexpr (std::is_pointer_v<T>) return sizeof(std::remove_pointer_t<T>);
  else return 0;
}

template <auto kernel, typename Signature = decltype(kernel)>
struct Kernel;

template <auto kernel, typename... Parameters>
struct Kernel<kernel, void (*)(Parameters...)> {
  static constexpr int elements[] = {element_bytes<Parameters>()..., 0};

  template <size_t... Numbers>
  static void call(const Argument* arguments, std::index_sequence<Numbers...>) {
    kernel(unpacked<Parameters>(arguments[Numbers])...);
  }
  static void enter(const Argument* arguments) { call(arguments, std::index_sequence_for<Parameters...>()); }
  static int launch(const char* name, const Argument* arguments) {
    return emulated::launch({name, sizeof...(Parameters), elements, enter}, arguments);
  }
};

}  // namespace emulated

#define EMULATED_KERNEL(name)                                                                                 \
  extern "C" __attribute__((visibility("default"), no_sanitize("thread"))) int __tvm_ffi_##name(              \
      void*, const emulated::Argument* arguments, int, emulated::Argument*) {                                 \
    return emulated::Kernel<name>::launch(#name, arguments);                                                  \
  }
