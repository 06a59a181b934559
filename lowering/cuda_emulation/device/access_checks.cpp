// Global and shared memory, and the check of every load and store.
//
// Each buffer of global memory is copied into a mapping of its own, with inaccessible memory on both sides that is
// wider than what a 32-bit index reaches. Each byte of shared memory, and each element of global memory, has a `Cell`:
// who wrote it last, and who has read it. Two accesses are in order if a barrier of their block, or of their warp, is
// between.
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <map>

#include "state.hpp"

namespace emulated {

struct Access {
  uint32_t epoch, lane_epoch, place;  // of the block, and of its lane
  uint16_t thread, flags;
};

struct Cell {
  Access write, reads[2];
};

struct Mapping {
  uint8_t* low;
  size_t reserved;
  uint8_t* begin;
  size_t bytes;

  bool is_near(uintptr_t address) const { return address - (uintptr_t)low < reserved; }
};

struct Buffer {
  Mapping mapping;
  void* host;
  int argument, element;
  Cell* cells;
  uint8_t* written;  // by byte, whether a kernel of this call wrote it; null where all bytes have a value
};

struct SharedArray {
  char name[64];
  int line;
  size_t offset, bytes;
};

constexpr size_t GUARD = (size_t)16 << 30;
constexpr size_t PAGE = 4096, ARRAYS = 64;
constexpr size_t WINDOW = SHARED_BYTES + ARRAYS * GAP;

static std::vector<Buffer> buffers;
static std::map<uint8_t*, std::vector<uint8_t>> unwritten;  // memory without a value at the call, and its written bytes
static std::vector<Argument> passed;
static std::vector<SharedArray> arrays;
static Mapping shared;
static Cell* shared_cells;
static uint8_t* owners;  // of a byte of shared memory: 1 + the number of its array
static uint16_t* read_by_products;  // of a byte of shared memory: products that have started and are not awaited
static size_t shared_used, dynamic_bytes, most_bytes;
static uint32_t launch_epoch;
static std::vector<uint32_t> block_epochs;
static uintptr_t image, image_end;

static Mapping reserved(size_t bytes) {
  size_t pages = (bytes + PAGE - 1) / PAGE * PAGE;
  for (size_t guard = GUARD; guard >= PAGE; guard /= 16) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* low = mmap(nullptr, pages + 2 * guard, PROT_NONE, flags, -1, 0);
    if (low == MAP_FAILED) continue;
    uint8_t* begin = (uint8_t*)low + guard;
    if (pages && mprotect(begin, pages, PROT_READ | PROT_WRITE)) abort();
    return {(uint8_t*)low, pages + 2 * guard, begin, bytes};
  }
  abort();
}

template <typename T>
static T* zeroed(size_t count) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* memory = mmap(nullptr, std::max<size_t>(1, count) * sizeof(T), PROT_READ | PROT_WRITE, flags, -1, 0);
  if (memory == MAP_FAILED) abort();
  return (T*)memory;
}

static int find_image(dl_phdr_info* info, size_t, void*) {
  uintptr_t own = (uintptr_t)&find_image, low = ~(uintptr_t)0, high = 0;
  for (int at = 0; at < info->dlpi_phnum; ++at) {
    if (info->dlpi_phdr[at].p_type != PT_LOAD) continue;
    uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[at].p_vaddr;
    low = std::min(low, begin);
    high = std::max(high, begin + info->dlpi_phdr[at].p_memsz);
  }
  if (own < low || own >= high) return 0;
  image = info->dlpi_addr;
  image_end = high;
  return 1;
}

// From the start of the library, as a debugger counts.
uint32_t place_of(const void* address) { return (uint32_t)((uintptr_t)address - image); }

void outside_of_array(int64_t index, const void* place) {
  failed(OUT_OF_BOUNDS, place);
  report.memory = 3;
  report.offset = index;
  stop();
}

static size_t cells_in(const Buffer& buffer) { return buffer.mapping.bytes / buffer.element + 1; }

static uint8_t* written_of(uint8_t* host, size_t bytes) {
  auto next = unwritten.upper_bound(host);
  if (next == unwritten.begin()) return nullptr;
  auto& [begin, written] = *std::prev(next);
  size_t offset = host - begin;
  return offset + bytes <= written.size() ? written.data() + offset : nullptr;
}

static void add_buffer(void* host, size_t bytes, int argument, int element) {
  Mapping mapping = reserved(bytes);
  if (bytes) memcpy(mapping.begin, host, bytes);
  Buffer buffer = {mapping, host, argument, element, nullptr, written_of((uint8_t*)host, bytes)};
  buffer.cells = zeroed<Cell>(cells_in(buffer));
  buffers.push_back(buffer);
}

static void* on_device(void* host, size_t bytes, int argument, int element) {
  for (Buffer& buffer : buffers) {
    size_t offset = (uint8_t*)host - (uint8_t*)buffer.host;
    // The offset of memory in front of a buffer is a large number, to which nothing may be added.
    if (offset < buffer.mapping.bytes && bytes <= buffer.mapping.bytes - offset) return buffer.mapping.begin + offset;
  }
  add_buffer(host, bytes, argument, element);
  return buffers.back().mapping.begin;
}

void track(void* memory, size_t bytes) {
  uint8_t *begin = (uint8_t*)memory, *end = begin + bytes;
  // What lay there before is freed.
  for (auto at = unwritten.begin(); at != unwritten.end();) {
    bool meets = at->first < end && begin < at->first + at->second.size();
    at = meets ? unwritten.erase(at) : std::next(at);
  }
  if (bytes) unwritten[begin].assign(bytes, 0);
}

void forget_tracked() { unwritten.clear(); }

void begin_memory(const Launch& kernel, const Argument* arguments, size_t dynamic, size_t most) {
  if (!image_end) {
    dl_iterate_phdr(find_image, nullptr);
    shared = reserved(WINDOW);
    shared_cells = zeroed<Cell>(WINDOW);
    owners = zeroed<uint8_t>(WINDOW);
    read_by_products = zeroed<uint16_t>(WINDOW);
  }
  launch_epoch = ++epoch;
  block_epochs.clear();
  arrays.clear();
  memset(owners, 0, WINDOW);
  memset(read_by_products, 0, WINDOW * sizeof *read_by_products);
  shared_used = 0;
  dynamic_bytes = dynamic;
  most_bytes = most;
  passed.assign(arguments, arguments + kernel.parameters);
  const Argument* size = arguments + kernel.parameters + 8;
  for (int at = 0; at < kernel.parameters; ++at) {
    if (!kernel.element_bytes[at]) continue;
    // A cell is one element of 4 bytes or less.
    int element = std::min(4, kernel.element_bytes[at]);
    int64_t bytes = (size++)->integer;
    // Less than 0 for memory that the host has allocated for this kernel.
    uint8_t* host = (uint8_t*)arguments[at].pointer;
    if (bytes < 0 && !written_of(host, -bytes)) track(host, -bytes);
    passed[at].pointer = on_device(host, bytes < 0 ? -bytes : bytes, at, element);
  }
}

void end_memory(const Argument*) {
  for (Buffer& buffer : buffers) {
    if (buffer.mapping.bytes) memcpy(buffer.host, buffer.mapping.begin, buffer.mapping.bytes);
    munmap(buffer.cells, std::max<size_t>(1, cells_in(buffer)) * sizeof(Cell));
    munmap(buffer.mapping.low, buffer.mapping.reserved);
  }
  buffers.clear();
}

const Argument* device_arguments() { return passed.data(); }

void begin_block_memory() { block_epochs.push_back(block_epoch); }

// Shared memory.

void* shared_array(const char* name, int line, size_t bytes) {
  for (SharedArray& array : arrays)
    if (array.line == line && !strcmp(array.name, name)) return shared.begin + array.offset;
  // Dynamic memory, which has no line, begins where tiles in each layout may.
  size_t start = line ? GAP : DYNAMIC_START;
  SharedArray array = {{}, line, (shared_used + start - 1) / start * start + start, bytes};
  strncpy(array.name, name, sizeof array.name - 1);
  size_t total = bytes, declared = line ? bytes : 0;
  for (SharedArray& other : arrays) {
    total += other.bytes;
    declared += other.line ? other.bytes : 0;
  }
  bool is_declared = declared > DECLARED_BYTES;
  if (is_declared || total > std::min(most_bytes, SHARED_BYTES) || arrays.size() + 1 == ARRAYS) {
    failed(TOO_MUCH_SHARED_MEMORY, __builtin_return_address(0));
    report.bytes = is_declared ? declared : total;
    report.extent = is_declared ? DECLARED_BYTES : most_bytes;
    stop();
  }
  arrays.push_back(array);
  memset(owners + array.offset, (int)arrays.size(), bytes);
  memset(shared.begin + array.offset, 0xff, bytes);
  shared_used = array.offset + bytes;
  return shared.begin + array.offset;
}

void* dynamic_shared_memory() { return shared_array("dynamic shared memory", 0, dynamic_bytes); }

uint32_t shared_address(const void* pointer) { return (uint32_t)((uintptr_t)pointer - (uintptr_t)shared.begin); }

void* shared_pointer(uint32_t address) { return shared.begin + (int32_t)address; }

// Checks.

[[noreturn]] static void wrong_address(Failure failure, const void* place, bool is_write, size_t bytes) {
  failed(failure, place);
  report.is_write = is_write;
  report.bytes = bytes;
  stop();
}

static void describe_shared(size_t offset) {
  report.memory = 2;
  const SharedArray* nearest = nullptr;
  for (SharedArray& array : arrays)
    if (!nearest || (array.offset <= offset && array.offset > nearest->offset)) nearest = &array;
  if (!nearest) return;
  memcpy(report.buffer, nearest->name, sizeof report.buffer);
  report.offset = (int64_t)offset - (int64_t)nearest->offset;
  report.extent = nearest->bytes;
}

static void describe_global(const Buffer& buffer, uintptr_t address) {
  report.memory = 1;
  report.argument = buffer.argument;
  report.offset = (int64_t)(address - (uintptr_t)buffer.mapping.begin);
  report.extent = buffer.mapping.bytes;
}

static bool is_in_order(const Access& before, bool is_shared) {
  if (before.epoch < (is_shared ? block_epoch : launch_epoch)) return true;
  if (before.epoch < block_epoch) return false;  // of another block
  if (before.thread == running->number || before.epoch < epoch) return true;
  return before.thread / WARP == running->number / WARP && before.lane_epoch < running->seen[before.thread % WARP];
}

[[noreturn]] static void race(const Access& other, bool other_writes) {
  report.other_is_write = other_writes;
  report.other_place = other.place;
  fill_index(report.other_thread, index_of(other.thread));
  size_t block = std::upper_bound(block_epochs.begin(), block_epochs.end(), other.epoch) - block_epochs.begin() - 1;
  unsigned number = (unsigned)block;
  Index index = {number % gridDim.x, number / gridDim.x % gridDim.y, number / gridDim.x / gridDim.y};
  fill_index(report.other_block, index);
  stop();
}

struct Checked {
  bool is_shared, is_write;
  uint16_t flags;
  size_t bytes;
  const void* place;
};

static void check_cell(Cell& cell, const Checked& access, uintptr_t address, const Buffer* buffer) {
  auto wrong = [&](Failure failure) {
    failed(failure, access.place);
    report.is_write = access.is_write;
    report.bytes = access.bytes;
    buffer ? describe_global(*buffer, address) : describe_shared(address - (uintptr_t)shared.begin);
  };
  bool is_written = cell.write.epoch >= block_epoch;
  if (access.is_shared && is_written && cell.write.flags & PENDING) {
    wrong(COPY_TOO_EARLY);
    race(cell.write, true);
  }
  bool is_atomic = access.flags & cell.write.flags & ATOMIC;
  if (!is_atomic && !is_in_order(cell.write, access.is_shared)) {
    wrong(RACE);
    race(cell.write, true);
  }
  if (access.is_shared && !is_written && (!access.is_write || access.flags & ATOMIC)) {
    wrong(UNINITIALIZED);
    defer();
  }
  Access now = {epoch, running->seen[lane()], place_of(access.place), (uint16_t)running->number, access.flags};
  if (!access.is_write) {
    bool is_first = is_in_order(cell.reads[0], access.is_shared) || cell.reads[0].thread == now.thread;
    cell.reads[is_first ? 0 : 1] = now;
    return;
  }
  for (const Access& read : cell.reads) {
    if (is_in_order(read, access.is_shared)) continue;
    wrong(RACE);
    race(read, false);
  }
  cell.write = now;
}

static void check_shared(uintptr_t address, const Checked& access) {
  size_t offset = address - (uintptr_t)shared.begin;
  bool is_inside = offset < WINDOW && offset + access.bytes <= WINDOW && owners[offset];
  if (!is_inside || owners[offset] != owners[offset + access.bytes - 1]) {
    describe_shared(offset);
    wrong_address(OUT_OF_BOUNDS, access.place, access.is_write, access.bytes);
  }
  for (size_t at = 0; at < access.bytes; ++at) {
    Cell& cell = shared_cells[offset + at];
    if (access.is_write && read_by_products[offset + at]) {
      failed(WRITTEN_UNDER_PRODUCT, access.place);
      report.bytes = access.bytes;
      describe_shared(offset);
      race(cell.reads[0], false);
    }
    check_cell(cell, access, address, nullptr);
  }
}

static void check_written(const Buffer& buffer, size_t offset, uintptr_t address, const Checked& access) {
  if (!buffer.written) return;
  bool is_read = !access.is_write || access.flags & ATOMIC;
  bool is_known = std::all_of(buffer.written + offset, buffer.written + offset + access.bytes, [](uint8_t at) { return at; });
  if (is_read && !is_known) {
    failed(UNINITIALIZED, access.place);
    report.is_write = access.is_write;
    report.bytes = access.bytes;
    describe_global(buffer, address);
    defer();
  }
  if (access.is_write) memset(buffer.written + offset, 1, access.bytes);
}

static void check_global(const Buffer& buffer, uintptr_t address, const Checked& access) {
  size_t offset = address - (uintptr_t)buffer.mapping.begin, element = buffer.element;
  if (offset > buffer.mapping.bytes || offset + access.bytes > buffer.mapping.bytes) {
    describe_global(buffer, address);
    wrong_address(OUT_OF_BOUNDS, access.place, access.is_write, access.bytes);
  }
  check_written(buffer, offset, address, access);
  if (access.bytes < element) return;  // a part of an element, which a cell does not tell from another part
  for (size_t at = 0; at < access.bytes; at += element)
    check_cell(buffer.cells[(offset + at) / element], access, address, &buffer);
}

static bool is_misaligned(uintptr_t address, size_t bytes) {
  return (bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16) && address % bytes;
}

static const Buffer* buffer_of(uintptr_t address) {
  for (Buffer& each : buffers)
    if (each.mapping.is_near(address)) return &each;
  return nullptr;
}

void misaligned(const void* pointer, size_t bytes, bool is_write, const void* place) {
  uintptr_t address = (uintptr_t)pointer;
  if (!running) return;
  if (const Buffer* buffer = buffer_of(address)) describe_global(*buffer, address);
  else if (shared.is_near(address)) describe_shared(address - (uintptr_t)shared.begin);
  wrong_address(MISALIGNED, place, is_write, bytes);
}

void check(const void* pointer, size_t bytes, bool is_write, const void* place, uint16_t flags) {
  uintptr_t address = (uintptr_t)pointer;
  if (!running || (address >= image && address < image_end)) return;
  Checked access = {shared.is_near(address), is_write, flags, bytes, place};
  const Buffer* buffer = buffer_of(address);
  bool is_unmapped = !access.is_shared && !buffer;
  if (is_unmapped && address >= 65536) return;  // a local array, which the compiler checks
  if (is_unmapped) wrong_address(OUT_OF_BOUNDS, place, is_write, bytes);
  if (is_misaligned(address, bytes)) misaligned(pointer, bytes, is_write, place);
  buffer ? check_global(*buffer, address, access) : check_shared(address, access);
}

void __attribute__((noinline)) check_shared_read(uint32_t from, size_t bytes) {
  check(shared_pointer(from), bytes, false, __builtin_return_address(0));
}

void __attribute__((noinline)) check_atomic(const void* at, size_t bytes) {
  check(at, bytes, true, __builtin_return_address(0), ATOMIC);
}

// Asynchronous copies, which arrive when they are waited for and no earlier.

void __attribute__((noinline)) start_copy(uint32_t to, const void* from, int bytes, int present) {
  const void* place = __builtin_return_address(0);
  if (present && is_misaligned((uintptr_t)from, bytes)) misaligned(from, bytes, false, place);
  if (present) check(from, present, false, place);
  check(shared_pointer(to), bytes, true, place, PENDING);
  running->started.push_back({to, from, bytes, present, place});
}

void commit_copies() {
  running->groups.push_back(running->started);
  running->started.clear();
}

static void finish(const Copy& copy) {
  memset(shared.begin + copy.to, 0, copy.bytes);
  memcpy(shared.begin + copy.to, copy.from, copy.present);
  for (int at = 0; at < copy.bytes; ++at) {
    Access& write = shared_cells[copy.to + at].write;
    write.epoch = epoch;
    write.lane_epoch = running->seen[lane()];
    write.flags = 0;
  }
}

void wait_for_copies(int pending) {
  while ((int)running->groups.size() > pending) {
    for (const Copy& copy : running->groups.front()) finish(copy);
    running->groups.pop_front();
  }
}

// Products of warpgroups, whose instructions read shared memory from when they start until they are waited for.

void __attribute__((noinline)) start_product_read(uint32_t from, size_t bytes) {
  const void* place = __builtin_return_address(0);
  check(shared_pointer(from), bytes, false, place);
  for (size_t at = from; at < from + bytes; ++at) {
    const Access& write = shared_cells[at].write;
    if (write.epoch >= block_epoch && fibers[write.thread].shown_epoch < write.epoch) {
      failed(NOT_SHOWN_TO_PRODUCT, place);
      report.bytes = bytes;
      describe_shared(from);
      race(write, true);
    }
    ++read_by_products[at];
  }
  running->started_reads.push_back({from, bytes, place});
}

void show_writes() { running->shown_epoch = epoch; }

void commit_products() {
  running->reads.push_back(running->started_reads);
  running->started_reads.clear();
}

void wait_for_products(int pending) {
  while ((int)running->reads.size() > pending) {
    for (const ProductRead& read : running->reads.front())
      for (size_t at = 0; at < read.bytes; ++at) --read_by_products[read.from + at];
    running->reads.pop_front();
  }
}

// The first thing that a thread has started and not waited for; null if there is none.
template <typename T>
static const T* not_awaited(const std::vector<T>& started, const std::deque<std::vector<T>>& groups) {
  for (const auto& group : groups)
    if (!group.empty()) return &group.front();
  return started.empty() ? nullptr : &started.front();
}

void end_copies() {
  if (const ProductRead* read = not_awaited(running->started_reads, running->reads)) {
    describe_shared(read->from);
    wrong_address(PRODUCT_NEVER_AWAITED, read->place, false, read->bytes);
  }
  if (const Copy* copy = not_awaited(running->started, running->groups)) {
    describe_shared(copy->to);
    wrong_address(COPY_NEVER_AWAITED, copy->place, true, copy->bytes);
  }
}

}  // namespace emulated
