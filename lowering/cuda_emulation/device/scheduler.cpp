// Blocks one after the other; the threads of a block as fibers, warp by warp, each until it waits for others.
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>

#include "state.hpp"

emulated::Index threadIdx, blockIdx, blockDim, gridDim;

namespace emulated {

std::vector<Fiber> fibers;
Fiber* running;
uint32_t epoch = 1, block_epoch = 1;
Report report;

static jmp_buf outside;
static ucontext_t starting;
static Launch launched;
static uint8_t* stacks;
static int stack_count;

struct Warp {
  Shown shown[WARP];
  Shown results[WARP][WARP];  // by the lowest lane of the mask
};
static std::vector<Warp> warps;

Report& failed(Failure failure, const void* place) {
  report.failure = failure;
  report.place = place_of(place);
  fill_index(report.block, blockIdx);
  if (running) fill_index(report.thread, running->index);
  return report;
}

static Report deferred;

void stop() {
  if (deferred.failure && report.failure != RACE) report = deferred;
  _longjmp(outside, 1);
}

void defer() {
  if (!deferred.failure) deferred = report;
  report.failure = NO_FAILURE;
}

void fill_index(uint32_t* to, const Index& index) {
  to[0] = index.x;
  to[1] = index.y;
  to[2] = index.z;
}

Index index_of(int thread) {
  unsigned number = thread;
  return {number % blockDim.x, number / blockDim.x % blockDim.y, number / blockDim.x / blockDim.y};
}

static void wait_as(State state) {
  Fiber* self = running;
  self->state = state;
  if (!_setjmp(self->context)) _longjmp(outside, 1);
  running = self;
  threadIdx = self->index;
}

static void run_fiber() {
  launched.entry(device_arguments());
  end_copies();
  running->state = DONE;
  _longjmp(outside, 1);
}

static void resume(Fiber& fiber) {
  running = &fiber;
  threadIdx = fiber.index;
  if (_setjmp(outside)) return;
  if (fiber.has_started) _longjmp(fiber.context, 1);
  fiber.has_started = true;
  getcontext(&starting);
  starting.uc_stack.ss_sp = stacks + (size_t)fiber.number * STACK_BYTES;
  starting.uc_stack.ss_size = STACK_BYTES;
  starting.uc_link = nullptr;
  makecontext(&starting, run_fiber, 0);
  setcontext(&starting);
}

static bool all_are(State state) {
  for (Fiber& fiber : fibers)
    if (fiber.state != state) return false;
  return true;
}

// Lets lanes go on that have waited for each other: each has seen what any of them had seen, and what all of them did.
static void join_lanes(int first, unsigned lanes) {
  uint32_t seen[WARP] = {};
  for (int lane = 0; lane < WARP; ++lane)
    for (int other = 0; other < WARP; ++other)
      if (lanes >> other & 1) seen[lane] = std::max(seen[lane], fibers[first + other].seen[lane]);
  for (int lane = 0; lane < WARP; ++lane)
    if (lanes >> lane & 1) ++seen[lane];
  for (int lane = 0; lane < WARP; ++lane) {
    if (!(lanes >> lane & 1)) continue;
    fibers[first + lane].state = READY;
    memcpy(fibers[first + lane].seen, seen, sizeof seen);
  }
}

// Lets a group of lanes go on that all of its lanes have reached.
static bool release_lanes(int first, int count) {
  bool has_released = false;
  for (int at = 0; at < count; ++at) {
    Fiber& fiber = fibers[first + at];
    unsigned mask = fiber.mask, arrived = 0;
    if (fiber.state != AT_WARP) continue;
    for (int other = 0; other < count; ++other) {
      Fiber& lane = fibers[first + other];
      bool is_same = lane.mask == mask && lane.instruction == fiber.instruction;
      if (lane.state == AT_WARP && is_same) arrived |= 1u << other;
    }
    unsigned there = count == WARP ? ~0u : (1u << count) - 1;
    if ((mask & there) != (arrived & mask)) continue;
    Warp& warp = warps[first / WARP];
    memcpy(warp.results[__builtin_ctz(mask)], warp.shown, sizeof warp.shown);
    join_lanes(first, arrived);
    has_released = true;
  }
  return has_released;
}

static void run_warp(int first, int count) {
  do {
    for (int at = first; at < first + count && !report.failure; ++at)
      if (fibers[at].state == READY) resume(fibers[at]);
  } while (!report.failure && release_lanes(first, count));
}

// Fails for threads that wait for each other in vain.
static void check_barrier() {
  int waiting = 0;
  Fiber *at_barrier = nullptr, *elsewhere = nullptr, *in_warp = nullptr;
  for (Fiber& fiber : fibers) {
    if (fiber.state == AT_BARRIER && ++waiting && !at_barrier) at_barrier = &fiber;
    if (fiber.state == AT_WARP && !in_warp) in_warp = &fiber;
    if (fiber.state != AT_BARRIER && !elsewhere) elsewhere = &fiber;
    if (at_barrier && fiber.state == AT_BARRIER && fiber.line != at_barrier->line && !elsewhere) elsewhere = &fiber;
  }
  if (!elsewhere) return;
  running = in_warp ? in_warp : at_barrier;
  Failure failure = in_warp ? LANES_MISSED : elsewhere->state == AT_BARRIER ? BARRIERS_DIFFER : BARRIER_MISSED;
  Report& about = failed(failure, running->place);
  about.line = running->line;
  about.other_line = elsewhere->line;
  about.threads = waiting;
  about.all_threads = (int)fibers.size();
  fill_index(about.other_thread, elsewhere->index);
}

static bool run_block() {
  int threads = (int)fibers.size();
  while (true) {
    for (int first = 0; first < threads; first += WARP) {
      run_warp(first, std::min(WARP, threads - first));
      if (report.failure) return false;
    }
    if (!deferred.failure && all_are(DONE)) return true;
    deferred.failure ? (void)(report = deferred) : check_barrier();
    if (report.failure) return false;
    ++epoch;
    for (Fiber& fiber : fibers) fiber.state = READY;
  }
}

static void begin_block(int threads) {
  block_epoch = ++epoch;
  begin_block_memory();
  fibers.resize(threads);
  warps.resize((threads + WARP - 1) / WARP);
  for (int thread = 0; thread < threads; ++thread) {
    Fiber& fiber = fibers[thread];
    fiber.state = READY;
    fiber.has_started = false;
    fiber.number = thread;
    fiber.index = index_of(thread);
    fiber.line = 0;
    memset(fiber.seen, 0, sizeof fiber.seen);
    fiber.started.clear();
    fiber.groups.clear();
    fiber.shown_epoch = 0;
    fiber.started_reads.clear();
    fiber.reads.clear();
  }
}

static void run_grid() {
  int threads = blockDim.x * blockDim.y * blockDim.z;
  if (stack_count < threads) {
    if (stacks) munmap(stacks, stack_count * STACK_BYTES);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    stacks = (uint8_t*)mmap(nullptr, threads * STACK_BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);
    stack_count = threads;
  }
  for (size_t block = 0; block < (size_t)gridDim.x * gridDim.y * gridDim.z; ++block) {
    blockIdx = {unsigned(block % gridDim.x), unsigned(block / gridDim.x % gridDim.y),
                unsigned(block / gridDim.x / gridDim.y)};
    begin_block(threads);
    if (!run_block()) return;
  }
}

// Arguments: the kernel's, then the grid, the block, the bytes of dynamic shared memory, those that a block may have,
// then those of each pointer.
int launch(const Launch& kernel, const Argument* arguments) {
  if (report.failure) return 0;  // what follows a failed launch is left out
  const Argument* sizes = arguments + kernel.parameters;
  auto size = [&](int at) { return (unsigned)sizes[at].integer; };
  memset(&report, 0, sizeof report);
  memset(&deferred, 0, sizeof deferred);
  strncpy(report.kernel, kernel.name, sizeof report.kernel - 1);
  launched = kernel;
  gridDim = {size(0), size(1), size(2)};
  blockDim = {size(3), size(4), size(5)};
  begin_memory(kernel, arguments, sizes[6].integer, sizes[7].integer);
  if (!report.failure) run_grid();
  running = nullptr;
  end_memory(arguments);
  return 0;
}

// Waiting.

void __attribute__((noinline)) barrier(int line) {
  running->line = line;
  running->place = __builtin_return_address(0);
  wait_as(AT_BARRIER);
}

static void wait_in_warp(unsigned mask, int instruction, const void* place) {
  running->mask = mask;
  running->instruction = instruction;
  running->place = place;
  if (!(mask >> lane() & 1)) lane_is_not_named(place);
  wait_as(AT_WARP);
}

void lane_is_not_named(const void* place) {
  failed(LANE_NOT_NAMED, place);
  stop();
}

void __attribute__((noinline)) warp_barrier(unsigned mask) { wait_in_warp(mask, WARP_BARRIER, __builtin_return_address(0)); }

const Shown* __attribute__((noinline)) shown_by(unsigned mask, const Shown& own, int instruction) {
  Warp& warp = warps[running->number / WARP];
  warp.shown[lane()] = own;
  uint32_t before[WARP];
  memcpy(before, running->seen, sizeof before);
  wait_in_warp(mask, instruction, __builtin_return_address(0));
  // Lanes that exchange registers do not see each other's stores yet.
  memcpy(running->seen, before, sizeof before);
  return warp.results[__builtin_ctz(mask)];
}

unsigned lane() { return running->number % WARP; }

unsigned warp() { return running->number / WARP; }

void __attribute__((noinline)) check_shown(unsigned mask, int source) {
  if (!(mask >> source & 1)) lane_is_not_named(__builtin_return_address(0));
}

unsigned active_lanes() {
  int first = running->number / WARP * WARP;
  unsigned lanes = 0;
  for (int at = first; at < std::min(first + WARP, (int)fibers.size()); ++at)
    if (fibers[at].state != DONE) lanes |= 1u << (at - first);
  return lanes;
}

void __attribute__((noinline)) trap() {
  failed(TRAP, __builtin_return_address(0));
  stop();
}

}  // namespace emulated

extern "C" {
#define VISIBLE __attribute__((visibility("default")))
VISIBLE emulated::Report* emulated_report() { return &emulated::report; }
VISIBLE void emulated_forget() { emulated::report.failure = 0; }
VISIBLE void emulated_begin_call() { emulated::forget_tracked(); }
VISIBLE void emulated_track(void* memory, size_t bytes) { emulated::track(memory, bytes); }
}
