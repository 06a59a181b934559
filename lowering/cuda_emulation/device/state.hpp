// The state of the emulated device, shared by its scheduler, its memory and its asynchronous copies.
#pragma once
#include <setjmp.h>
#include <ucontext.h>

#include <deque>
#include <vector>

#include "runtime.hpp"

namespace emulated {

constexpr int WARP = 32;
constexpr size_t STACK_BYTES = 512 * 1024;
constexpr size_t SHARED_BYTES = 232448;  // 227 KiB, the most that a block of sm_90 and sm_100 may have
constexpr size_t DECLARED_BYTES = 48 * 1024;  // the most without asking for more at launch
constexpr size_t GAP = 256;              // between two shared arrays, so that no overrun reaches the next one
constexpr size_t DYNAMIC_START = 1024;   // dynamic shared memory begins at a multiple of it

enum State { READY, AT_BARRIER, AT_WARP, DONE };

struct Copy {
  uint32_t to;
  const void* from;
  int bytes, present;
  const void* place;
};

struct ProductRead {
  uint32_t from;
  size_t bytes;
  const void* place;
};

struct Fiber {
  jmp_buf context;
  State state;
  bool has_started;
  Index index;
  int number;
  int line;              // of the barrier that it waits at
  const void* place;     // of the call that it waits in
  unsigned mask;         // of the lanes that it waits for
  int instruction;       // that it waits in with these lanes
  uint32_t seen[WARP];   // by lane of its warp, how many barriers of the warp that lane had passed when it was last waited for
  std::vector<Copy> started;
  std::deque<std::vector<Copy>> groups;
  uint32_t shown_epoch;  // of its last fence, before which its stores are seen by products, too
  std::vector<ProductRead> started_reads;
  std::deque<std::vector<ProductRead>> reads;
};

extern std::vector<Fiber> fibers;
extern Fiber* running;
extern uint32_t epoch;        // raised by each barrier, and by each block
extern uint32_t block_epoch;  // its value when the block began
extern Report report;

// An address in the library, from its start, as a debugger counts.
uint32_t place_of(const void* address);
// Fails for an instruction of a warp whose mask lacks the lane that executes it, or one whose value it takes.
[[noreturn]] void lane_is_not_named(const void* place);
// Notes the first failure, where `place` did what is wrong.
Report& failed(Failure failure, const void* place);
// Ends the launch: the running thread goes on no more.
[[noreturn]] void stop();
// Lets the launch go on until the next barrier: the write that a read came before is a race if it still comes.
void defer();

void begin_memory(const Launch& kernel, const Argument* arguments, size_t dynamic_bytes, size_t most_shared);
void end_memory(const Argument* arguments);
void begin_block_memory();
// Whether an access is allowed; `place` is what does it.
enum Flags : uint16_t { ATOMIC = 1, PENDING = 2 };
void check(const void* pointer, size_t bytes, bool is_write, const void* place, uint16_t flags = 0);
void misaligned(const void* pointer, size_t bytes, bool is_write, const void* place);
void outside_of_array(int64_t index, const void* place);
// Fails for copies and products of a thread that ends without waiting for them.
void end_copies();
// Remembers memory that has no value until a kernel writes it.
void track(void* memory, size_t bytes);
void forget_tracked();
// What the kernel has in place of an argument.
const Argument* device_arguments();

void fill_index(uint32_t* to, const Index& index);
Index index_of(int thread);

}  // namespace emulated
