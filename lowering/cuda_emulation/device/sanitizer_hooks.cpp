// The functions that a compiler's sanitizers call from kernels: before each load and store, and where an index or an
// address is wrong. None of the sanitizers' own libraries is linked.
#include "state.hpp"

#define CHECKED(bytes)                                                                                   \
  void __tsan_read##bytes(void* at) { emulated::check(at, bytes, false, __builtin_return_address(0)); }  \
  void __tsan_write##bytes(void* at) { emulated::check(at, bytes, true, __builtin_return_address(0)); }  \
  void __tsan_unaligned_read##bytes(void* at) { emulated::check(at, bytes, false, __builtin_return_address(0)); } \
  void __tsan_unaligned_write##bytes(void* at) { emulated::check(at, bytes, true, __builtin_return_address(0)); }

extern "C" {
CHECKED(1)
CHECKED(2)
CHECKED(4)
CHECKED(8)
CHECKED(16)
void __tsan_read_range(void* at, size_t bytes) { emulated::check(at, bytes, false, __builtin_return_address(0)); }
void __tsan_write_range(void* at, size_t bytes) { emulated::check(at, bytes, true, __builtin_return_address(0)); }
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_init() {}

// What -fsanitize=bounds calls for an index outside of an array whose size is known.
void __ubsan_handle_out_of_bounds(void*, uintptr_t index) {
  emulated::outside_of_array((int64_t)index, __builtin_return_address(0));
}

// What -fsanitize=alignment calls for a vector that does not begin at a multiple of its size.
struct TypeMismatch {
  const char* file;
  uint32_t line, column;
  const void* type;
  uint8_t log_alignment, kind;
};
void __ubsan_handle_type_mismatch_v1(TypeMismatch* data, uintptr_t address) {
  emulated::misaligned((const void*)address, 1 << data->log_alignment, data->kind == 1, __builtin_return_address(0));
}
}
