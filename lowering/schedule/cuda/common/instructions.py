"""Instructions of tensor cores and asynchronous copies, as CUDA functions of ours that TIR calls by name.

Each call brings its function's source along. Available from sm_80 on. A fragment is the part of a small matrix that one
thread of a warp holds: `fragments` loads four of 8 rows of 16 bytes, in the register layout that `multiply` takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlirtri.lowering.toolchain.tvm_names import Buffer, Expr, Stmt, tirx

FIRST_ARCHITECTURE = 80
"""The first `sm_` number with asynchronous copies and fragments of bf16."""
ROWS, COLUMNS = 16, 8
"""The shape of the result of one instruction."""
CALL = "tirx.cuda.func_call"


@dataclass(frozen=True)
class Multiplication:
    """One instruction: ``sums += left @ right`` of 16 rows, 8 columns and 32 bytes along the sum."""

    dtype: str
    """Dtypes of the operands in memory."""
    sums: str
    """Dtype of the sums."""
    shape: str
    operands: str
    """PTX's names of the dtypes of sums and operands."""
    name: str

    @property
    def bytes(self) -> int:
        return {"float16": 2, "bfloat16": 2, "float32": 4}.get(self.dtype, 1)

    @property
    def depth(self) -> int:
        """Return the number of elements along the sum."""
        return 32 // self.bytes

    @property
    def of_groups(self) -> str:
        """Return PTX's names of the dtypes as instructions of warpgroups have them: of sums and both operands."""
        return self.operands.rpartition(".")[0]


def _of_bytes(left: str, right: str) -> Multiplication:
    short = {"int8": "s8", "uint8": "u8"}
    name = left if left == right else f"{left}_by_{right}"
    return Multiplication(left, "int32", "m16n8k32", f"s32.{short[left]}.{short[right]}.s32", name)


BYTES = ("int8", "uint8")
MULTIPLICATIONS = {
    ("float16", "float16"): Multiplication("float16", "float32", "m16n8k16", "f32.f16.f16.f32", "float16"),
    ("bfloat16", "bfloat16"): Multiplication("bfloat16", "float32", "m16n8k16", "f32.bf16.bf16.f32", "bfloat16"),
    **{(left, right): _of_bytes(left, right) for left in BYTES for right in BYTES},
}
"""Instructions by the dtypes of the left and right operands."""
NARROW = {dtype for pair in MULTIPLICATIONS for dtype in pair}

_FUNCTION = "__forceinline__ __device__ void"
_COPY = """{function} mlirtri_copy_{bytes}(void* to, const void* from, int present) {{
  unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.{cache}.shared.global [%0], [%1], {bytes}, %2;" :: "r"(at), "l"(from), "r"(present));
}}
"""
_COMMIT = """{function} mlirtri_commit_copies() {{
  asm volatile("cp.async.commit_group;");
}}
"""
_WAIT = """{function} mlirtri_wait_for_all_but_{pending}() {{
  asm volatile("cp.async.wait_group {pending};");
}}
"""
_PUT = """{function} mlirtri_put_{dtype}({type}* to, {type} value) {{
  *to = value;
}}
"""
_EXCHANGE = """{function} mlirtri_exchange_{dtype}_{distance}({ctype}* value) {{
  *value = __shfl_xor_sync(0xffffffffu, *value, {distance});
}}
"""
_TRANSPOSE = """{function} mlirtri_transpose_among_four(void* elements) {{
  unsigned words[4];
  memcpy(words, elements, sizeof words);
  #pragma unroll
  for (int distance = 1; distance < 4; distance *= 2) {{
    bool is_second = threadIdx.x & distance;
    #pragma unroll
    for (int pair = 0; pair < 2; ++pair) {{
      int first = distance == 1 ? 2 * pair : pair;
      unsigned word = __shfl_xor_sync(0xffffffffu, is_second ? words[first] : words[first + distance], distance);
      words[first] = is_second ? word : words[first];
      words[first + distance] = is_second ? words[first + distance] : word;
    }}
  }}
  memcpy(elements, words, sizeof words);
}}
"""
_FRAGMENTS = """{function} mlirtri_fragments{way}(unsigned* to, const void* from) {{
  unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(from));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{%0, %1, %2, %3}}, [%4];"
    : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at));
}}
"""
_MULTIPLY = """{function} mlirtri_multiply_{name}({sums}* sums, const {left}, const unsigned* right) {{
{parts}  asm volatile("mma.sync.aligned.{shape}.row.col.{operands} "
    "{{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};"
    : "+{register}"(sums[0]), "+{register}"(sums[1]), "+{register}"(sums[2]), "+{register}"(sums[3])
    : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
}}
"""


def function_of(name: str, parameters: str) -> str:
    """Return the head of a CUDA function."""
    return f"{_FUNCTION} {name}({parameters})"


def copy(count: int, target: Expr, source: Expr, is_present: Expr) -> Stmt:
    """Start to copy 4, 8 or 16 bytes from global to shared memory; zeros if `is_present` is false."""
    code = _COPY.format(function=_FUNCTION, bytes=count, cache="cg" if count == 16 else "ca")
    present = tirx.IntImm("int32", count)
    if is_present is not None:
        present = tirx.Select(is_present, present, tirx.IntImm("int32", 0))
    return call(f"mlirtri_copy_{count}", code, target, tirx.address_of(source), present)


def put(target: Expr, value: Expr) -> Stmt:
    """Store to shared memory, hidden from TVM."""
    dtype = str(value.ty.dtype)
    name = "float" if dtype == "float32" else f"{dtype}_t"
    return call(f"mlirtri_put_{dtype}", _PUT.format(function=_FUNCTION, dtype=dtype, type=name), target, value)


EXCHANGED = {"float32": "float", "int32": "int"}
"""CUDA's names of the dtypes that threads exchange."""


def exchange(value: Expr, distance: int) -> Stmt:
    """Replace a thread's value, a buffer of one element, by that of the thread of its warp `distance` bits away."""
    dtype = str(value.dtype)
    code = _EXCHANGE.format(function=_FUNCTION, dtype=dtype, ctype=EXCHANGED[dtype], distance=distance)
    return call(f"mlirtri_exchange_{dtype}_{distance}", code, address(value, tirx.IntImm("int64", 0), 1))


def transpose_among_four(elements: Expr) -> Stmt:
    """Give each of four neighbouring threads, of their four words each, those of its own number."""
    return call("mlirtri_transpose_among_four", _TRANSPOSE.format(function=_FUNCTION), elements)


def commit_copies() -> Stmt:
    """Commit all copies that this thread has started since the last commit as one group."""
    return call("mlirtri_commit_copies", _COMMIT.format(function=_FUNCTION))


def wait_for_copies(pending: int) -> Stmt:
    """Wait until all copy groups of this thread but the `pending` last ones are complete."""
    return call(f"mlirtri_wait_for_all_but_{pending}", _WAIT.format(function=_FUNCTION, pending=pending))


def fragments(target: Expr, source: Expr, is_transposed: bool) -> Stmt:
    """Load four fragments; thread n of a warp gives the address of row n % 8 of matrix n / 8."""
    suffix, trans = ("_transposed", ".trans") if is_transposed else ("", "")
    code = _FRAGMENTS.format(function=_FUNCTION, way=suffix, trans=trans)
    return call(f"mlirtri_fragments{suffix}", code, target, source)


PARTS = """  unsigned left[4];
  memcpy(left, elements, sizeof left);
"""
"""Takes a fragment of the left factor from `elements` in registers, as sums converted to its dtype lie there."""


def multiply(kind: Multiplication, sums: Expr, left: Expr, right: Expr, is_left_held: bool = False) -> Stmt:
    """Add ``left @ right`` to `sums`, on the fragments of a warp's threads; the left one may be of elements."""
    is_float = kind.sums == "float32"
    types = {"sums": "float" if is_float else "int", "register": "f" if is_float else "r"}
    name = f"{kind.name}_held" if is_left_held else kind.name
    code = _MULTIPLY.format(
        function=_FUNCTION, name=name, shape=kind.shape, operands=kind.operands, **types,
        left="void* elements" if is_left_held else "unsigned* left", parts=PARTS if is_left_held else "",
    )  # fmt: skip
    return call(f"mlirtri_multiply_{name}", code, sums, left, right)


def barrier() -> Stmt:
    """Wait for all threads of the block."""
    return tirx.Evaluate(tirx.call_intrin("void", "tirx.tvm_storage_sync", "shared"))


def address(buffer: Buffer, offset: Expr, count: int) -> Expr:
    """Return the address of `count` elements of shared memory or registers.

    All are marked as read: TVM would put a barrier of its own after a write.
    """
    return buffer.access_ptr(1, offset=offset, extent=count)


def call(name: str, code: str, *arguments: Any) -> Any:
    """Return the call of a CUDA function by its name, with its source."""
    return tirx.Evaluate(tirx.call_intrin("void", CALL, name, *arguments, code))
