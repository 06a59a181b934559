// CUDA's kernels on a CPU: every thread of a block is a fiber, which runs until it has to wait for others.
//
// Barriers and warps are as strict as on a device: a block in which some threads wait for others that have ended, or that
// wait elsewhere, fails. Asynchronous copies arrive when they are waited for and no earlier. Each warp runs as far as it
// can before the next one does, so that what is read where a barrier is missing was not written yet.
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <stdlib.h>
#include <ucontext.h>
#define CUDART_INF_F __builtin_inff()

#include <algorithm>
#include <deque>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ static inline
#define __launch_bounds__(n)
#define __restrict__
#define __align__(n)
#define uint unsigned int
#define ushort unsigned short

typedef _Float16 half;
typedef uint8_t uchar;
struct nv_bfloat16 { uint16_t bits; };
struct half2 { half x, y; };
struct nv_bfloat162 { nv_bfloat16 x, y; };
struct float2 { float x, y; };
struct int2 { int x, y; };
struct uint2 { unsigned x, y; };
struct ushort2 { unsigned short x, y; };
static half2 make_half2(half x, half y) { return {x, y}; }
static float2 make_float2(float x, float y) { return {x, y}; }
static int2 make_int2(int x, int y) { return {x, y}; }
static uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static ushort2 make_ushort2(unsigned short x, unsigned short y) { return {x, y}; }
static half __float2half_rn(float x) { return (half)x; }
static float __half2float(half x) { return (float)x; }
static int min(int x, int y) { return x < y ? x : y; }
static int max(int x, int y) { return x > y ? x : y; }

struct Place { unsigned x, y, z; };
static Place threadIdx, blockIdx;

namespace emulated {

enum State { READY, AT_BARRIER, AT_WARP, DONE };
struct Copy { void* to; const void* from; int bytes, present; };
struct Fiber {
  ucontext_t context;
  State state;
  Place place;
  int number;
  std::vector<Copy> started;
  std::deque<std::vector<Copy>> groups;
};
struct Warp { const void* sources[32]; unsigned left[32][4], right[32][2]; };

static std::vector<Fiber> fibers;
static std::vector<Warp> warps;
static ucontext_t outside;
static Fiber* running;
static void (*entry)();
alignas(1024) static uint8_t shared_memory[256 * 1024];

static void wait_as(State state) {
  running->state = state;
  swapcontext(&running->context, &outside);
}

static void run_fiber() {
  entry();
  running->state = DONE;
  swapcontext(&running->context, &outside);
}

static void release(State state, size_t first, size_t count) {
  for (size_t at = first; at < first + count; ++at)
    if (fibers[at].state == state) fibers[at].state = READY;
}

static bool all_are(State state, size_t first, size_t count) {
  for (size_t at = first; at < first + count; ++at)
    if (fibers[at].state != state) return false;
  return true;
}

// Each thread of a warp until all wait for the rest of the block, or have ended.
static void run_warp(int first, int count) {
  bool has_run = true;
  while (has_run) {
    has_run = false;
    for (int at = first; at < first + count; ++at) {
      if (fibers[at].state != READY) continue;
      running = &fibers[at];
      threadIdx = running->place;
      swapcontext(&outside, &running->context);
      has_run = true;
    }
    if (all_are(AT_WARP, first, count)) {
      release(AT_WARP, first, count);
      has_run = true;
    }
  }
}

// 0, or 1 where threads wait for each other in vain.
static int run_block(int threads) {
  std::vector<int> order((threads + 31) / 32);
  for (size_t at = 0; at < order.size(); ++at) order[at] = at;
  for (unsigned round = 1; !all_are(DONE, 0, threads); ++round) {
    for (int at = order.size() - 1; at > 0; --at) std::swap(order[at], order[(round * 2654435761u >> 8) % (at + 1)]);
    for (int warp : order) run_warp(warp * 32, std::min(32, threads - warp * 32));
    if (all_are(DONE, 0, threads)) return 0;
    if (!all_are(AT_BARRIER, 0, threads)) return 1;
    release(AT_BARRIER, 0, threads);
  }
  return 0;
}

static int run_grid(void (*kernel)(), Place grid, Place block) {
  int threads = block.x * block.y * block.z;
  static std::vector<std::vector<uint8_t>> stacks;
  if ((int)stacks.size() < threads) stacks.resize(threads, std::vector<uint8_t>(64 * 1024));
  entry = kernel;
  for (unsigned at = 0; at < grid.x * grid.y * grid.z; ++at) {
    blockIdx = {at % grid.x, at / grid.x % grid.y, at / grid.x / grid.y};
    memset(shared_memory, 0xff, sizeof shared_memory);
    fibers.assign(threads, Fiber());
    warps.assign(threads / 32 + 1, Warp());
    for (unsigned thread = 0; thread < (unsigned)threads; ++thread) {
      Fiber& fiber = fibers[thread];
      fiber.number = thread;
      fiber.place = {thread % block.x, thread / block.x % block.y, thread / block.x / block.y};
      fiber.state = READY;
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = stacks[thread].data();
      fiber.context.uc_stack.ss_size = stacks[thread].size();
      fiber.context.uc_link = &outside;
      makecontext(&fiber.context, run_fiber, 0);
    }
    if (run_block(threads)) return 1;
  }
  return 0;
}

// Back in a fiber, whose place has been another one's meanwhile.
static void wait_and_return(State state) {
  Fiber* self = running;
  wait_as(state);
  running = self;
  threadIdx = self->place;
}

static void start_copy(void* to, const void* from, int bytes, int present) {
  running->started.push_back({to, from, bytes, present});
}

// One factor of 32 bytes along the sum: how many elements are in a register, and the element at a place.
template <typename T, typename Sum, typename Right = T>
struct Multiply {
  static constexpr int per = 4 / sizeof(T);

  static float wide(half x) { return (float)x; }
  static int wide(int8_t x) { return x; }
  static int wide(uint8_t x) { return x; }
  static float wide(nv_bfloat16 x) {
    uint32_t bits = (uint32_t)x.bits << 16;
    float value;
    memcpy(&value, &bits, 4);
    return value;
  }

  template <typename Kind>
  static Sum element(const unsigned* parts, int k) {
    Kind values[per];
    memcpy(values, parts, 4);
    return wide(values[k % per]);
  }

  static void run(Sum* sums, const unsigned* left, const unsigned* right) {
    int lane = running->number % 32;
    Warp& warp = warps[running->number / 32];
    memcpy(warp.left[lane], left, 16);
    memcpy(warp.right[lane], right, 8);
    wait_and_return(AT_WARP);
    for (int at = 0; at < 4; ++at) {
      int row = lane / 4 + 8 * (at / 2), column = lane % 4 * 2 + at % 2;
      for (int k = 0; k < 8 * per; ++k) {
        int part = k % (4 * per) / per, later = k / (4 * per);
        const unsigned* of_left = &warp.left[row % 8 * 4 + part][row / 8 + 2 * later];
        const unsigned* of_right = &warp.right[column * 4 + part][later];
        sums[at] += element<T>(of_left, k) * element<Right>(of_right, k);
      }
    }
    wait_and_return(AT_WARP);
  }
};

static void load_fragments(unsigned* to, const void* from, bool is_transposed) {
  int lane = running->number % 32;
  Warp& warp = warps[running->number / 32];
  warp.sources[lane] = from;
  wait_and_return(AT_WARP);
  for (int matrix = 0; matrix < 4; ++matrix) {
    const uint16_t* const* rows = (const uint16_t* const*)&warp.sources[matrix * 8];
    if (is_transposed)
      to[matrix] = rows[lane % 4 * 2][lane / 4] | (unsigned)rows[lane % 4 * 2 + 1][lane / 4] << 16;
    else
      memcpy(&to[matrix], &rows[lane / 4][lane % 4 * 2], 4);
  }
  wait_and_return(AT_WARP);
}

static void wait_for_all_but(size_t pending) {
  while (running->groups.size() > pending) {
    for (Copy& copy : running->groups.front()) {
      if ((uintptr_t)copy.to % copy.bytes || (copy.present && (uintptr_t)copy.from % copy.bytes)) abort();
      memset(copy.to, 0, copy.bytes);
      memcpy(copy.to, copy.from, copy.present);
    }
    running->groups.pop_front();
  }
}

}  // namespace emulated

static void __syncthreads() { emulated::wait_and_return(emulated::AT_BARRIER); }
static void mlirtri_copy_4(void* to, const void* from, int present) { emulated::start_copy(to, from, 4, present); }
static void mlirtri_copy_8(void* to, const void* from, int present) { emulated::start_copy(to, from, 8, present); }
static void mlirtri_copy_16(void* to, const void* from, int present) { emulated::start_copy(to, from, 16, present); }
static void mlirtri_commit_copies() {
  emulated::running->groups.push_back(emulated::running->started);
  emulated::running->started.clear();
}
static void mlirtri_wait_for_all_but_2() { emulated::wait_for_all_but(2); }
static void mlirtri_put_uint16(uint16_t* to, uint16_t value) { *to = value; }
static void mlirtri_put_int8(int8_t* to, int8_t value) { *to = value; }
static void mlirtri_put_uint8(uint8_t* to, uint8_t value) { *to = value; }
static void mlirtri_fragments(unsigned* to, const void* from) { emulated::load_fragments(to, from, false); }
static void mlirtri_fragments_transposed(unsigned* to, const void* from) { emulated::load_fragments(to, from, true); }
static void mlirtri_multiply_float16(float* sums, const unsigned* left, const unsigned* right) {
  emulated::Multiply<half, float>::run(sums, left, right);
}
static void mlirtri_multiply_bfloat16(float* sums, const unsigned* left, const unsigned* right) {
  emulated::Multiply<nv_bfloat16, float>::run(sums, left, right);
}
static void mlirtri_multiply_int8(int* sums, const unsigned* left, const unsigned* right) {
  emulated::Multiply<int8_t, int>::run(sums, left, right);
}
static void mlirtri_multiply_uint8(int* sums, const unsigned* left, const unsigned* right) {
  emulated::Multiply<uint8_t, int>::run(sums, left, right);
}
static void mlirtri_multiply_int8_by_uint8(int* sums, const unsigned* left, const unsigned* right) {
  emulated::Multiply<int8_t, int, uint8_t>::run(sums, left, right);
}
static void mlirtri_multiply_uint8_by_int8(int* sums, const unsigned* left, const unsigned* right) {
  emulated::Multiply<uint8_t, int, int8_t>::run(sums, left, right);
}
