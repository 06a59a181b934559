// What the emulated device offers to kernels and to the headers that stand in for CUDA's own.
//
// Every thread of a block is a fiber, which runs until it has to wait for others. Loads and stores of a kernel call the
// functions that the compiler inserts for a thread sanitizer; `access_checks.cpp` implements them as the checks.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace emulated {

struct Index {
  unsigned x, y, z;
};

enum Failure {
  NO_FAILURE,
  OUT_OF_BOUNDS,
  MISALIGNED,
  RACE,
  UNINITIALIZED,
  COPY_TOO_EARLY,
  COPY_NEVER_AWAITED,
  BARRIER_MISSED,
  BARRIERS_DIFFER,
  LANES_MISSED,
  TOO_MUCH_SHARED_MEMORY,
  TRAP,
  LANE_NOT_NAMED,
  PRODUCT_NEVER_AWAITED,
  WRITTEN_UNDER_PRODUCT,
  NOT_SHOWN_TO_PRODUCT,
};

// The first failure of a launch, as Python reads it: `Report` in reports.py has the same fields.
struct Report {
  int32_t failure;
  int32_t is_write;
  int32_t other_is_write;
  int32_t memory;        // 0 unknown, 1 global, 2 shared, 3 a local or static array
  int32_t argument;      // of the kernel, for global memory
  int32_t line;          // of a barrier
  int32_t other_line;
  int32_t threads;       // that wait
  int32_t all_threads;
  uint32_t block[3];
  uint32_t thread[3];
  uint32_t other_thread[3];
  uint32_t other_block[3];
  int64_t offset;        // in bytes, from the start of the buffer
  int64_t bytes;         // of the access
  int64_t extent;        // of the buffer, in bytes
  uint64_t place;        // address of the instruction, from the start of the library
  uint64_t other_place;
  char buffer[64];
  char kernel[128];
};

// A value that each lane of a warp shows to the others.
struct Shown {
  uint32_t words[8];
};

void barrier(int line);
void warp_barrier(unsigned mask);
// What the lanes of a mask show each other in one instruction: `instruction` is its line, or one of those below.
enum Instruction { WARP_BARRIER = 0, MATRIX_LOAD = -1, MATRIX_PRODUCT = -2, GROUP_PRODUCT = -3 };
const Shown* shown_by(unsigned mask, const Shown& own, int instruction);
// Fails if the mask of an instruction lacks a lane whose value is taken.
void check_shown(unsigned mask, int source);
unsigned lane();
unsigned warp();
unsigned active_lanes();
[[noreturn]] void trap();

void* shared_array(const char* name, int line, size_t bytes);
void* dynamic_shared_memory();
uint32_t shared_address(const void* pointer);
void* shared_pointer(uint32_t address);

void start_copy(uint32_t to, const void* from, int bytes, int present);
void commit_copies();
void wait_for_copies(int pending);

void start_product_read(uint32_t from, size_t bytes);
void show_writes();
void commit_products();
void wait_for_products(int pending);

void check_shared_read(uint32_t from, size_t bytes);
void check_atomic(const void* at, size_t bytes);

// An argument of a function as TVM passes it.
struct Argument {
  int32_t kind;
  int32_t padding;
  union {
    int64_t integer;
    double number;
    void* pointer;
  };
};

struct Launch {
  const char* name;
  int parameters;
  const int* element_bytes;  // of each parameter that is a pointer, else 0
  void (*entry)(const Argument* arguments);
};

int launch(const Launch& kernel, const Argument* arguments);

}  // namespace emulated

extern emulated::Index threadIdx __attribute__((visibility("hidden")));
extern emulated::Index blockIdx __attribute__((visibility("hidden")));
extern emulated::Index blockDim __attribute__((visibility("hidden")));
extern emulated::Index gridDim __attribute__((visibility("hidden")));
