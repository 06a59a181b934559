"""Rounding to fp16 and bf16 as arithmetic, where LLVM's own is missing at run time or wrong.

From fp64, LLVM calls a function that C runtimes before 2022 lack. To bf16, it uses vcvtneps2bf16 where the CPU has
AVX512-BF16, which flushes denormals to zero; also for a bf16 that only passes between basic blocks.

Conversions from fp64 go by way of fp32 and still round only once: the step to fp32 rounds to odd (an inexact result
gets an odd last bit), which keeps what the second rounding needs (S. Boldo, G. Melquiond, "Emulation of FMA and
correctly rounded sums: proved algorithms using rounding to odd", IEEE Transactions on Computers 57(4), 2008). From fp32
to bf16 and back, integer arithmetic on the bits: to nearest, ties to even, every NaN 0x7FC0. Operations on bf16 are
done in fp32, each rounded by itself. fp32 to fp16, integers to other floats and vectors stay.
"""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import arith, ir, operations_named
from mlirtri.lowering.mlir_common.cloning import replace

BFLOAT16_ARITHMETIC = tuple(
    f"arith.{name}"
    for name in ("addf", "subf", "mulf", "divf", "remf", "maximumf", "minimumf", "maxnumf", "minnumf", "negf")
)
"""Operations computed in fp32, which is wide enough that rounding twice equals rounding once."""


def rewrite(module: ir.Module) -> None:
    """Replace every scalar conversion of fp64 to a 16-bit float, and every operation that produces or reads a bf16."""
    for operation in operations_named(module, *_RULES):
        with ir.InsertionPoint(operation), operation.location:
            value = _RULES[operation.name](operation)
        if value is not None:
            replace(operation, [value])


def rewrite_memory(module: ir.Module) -> None:
    """Load and store every bf16 of the LLVM dialect as 16 bits, or LLVM would hoist its own bf16 out of a loop."""
    half, short = ir.BF16Type.get(), ir.IntegerType.get_signless(16)
    for load in operations_named(module, "llvm.load"):
        loaded = load.results[0]
        if isinstance(loaded.type, ir.BF16Type):
            loaded.set_type(short)
            with ir.InsertionPoint.after(load), load.location:
                cast = ir.Operation.create("llvm.bitcast", [half], [loaded])
            loaded.replace_all_uses_except(cast.result, cast)
    for store in operations_named(module, "llvm.store"):
        if isinstance(store.operands[0].type, ir.BF16Type):
            with ir.InsertionPoint(store), store.location:
                store.operands[0] = ir.Operation.create("llvm.bitcast", [short], [store.operands[0]]).result


_ROUNDING = """
llvm.func weak_odr @__truncdfhf2(%x: f64) -> f16 attributes {passthrough = ["noinline"]} {
  %one = llvm.mlir.constant(1 : i32) : i32
  %zero = llvm.mlir.constant(0 : i32) : i32
  %nearest = llvm.fptrunc %x : f64 to f32
  %bits = llvm.bitcast %nearest : f32 to i32
  %back = llvm.fpext %nearest : f32 to f64
  %inexact = llvm.fcmp "one" %back, %x : f64
  %last = llvm.and %bits, %one : i32
  %even = llvm.icmp "eq" %last, %zero : i32
  %is_off = llvm.and %inexact, %even : i1
  %reached = llvm.intr.fabs(%back) : (f64) -> f64
  %wanted = llvm.intr.fabs(%x) : (f64) -> f64
  %too_small = llvm.fcmp "olt" %reached, %wanted : f64
  %above = llvm.add %bits, %one : i32
  %below = llvm.sub %bits, %one : i32
  %neighbour = llvm.select %too_small, %above, %below : i1, i32
  %odd = llvm.select %is_off, %neighbour, %bits : i1, i32
  %rounded = llvm.bitcast %odd : i32 to f32
  %half = llvm.fptrunc %rounded : f32 to f16
  llvm.return %half : f16
}
"""
"""What LLVM calls to round fp64 to fp16 (`to_odd_float32`, then to nearest). C runtimes have it from 2022 on."""


def define_rounding(module: ir.Module) -> None:
    """Define the function that LLVM calls where it makes one conversion of fp64 to fp32 and fp32 to fp16.

    It does so by moving conversions into the operands of selects, with its strongest optimizations only.
    """
    steps = {
        (str(cast.operands[0].type), str(cast.results[0].type)) for cast in operations_named(module, "llvm.fptrunc")
    }
    if {("f64", "f32"), ("f32", "f16")} <= steps:
        for function in ir.Module.parse(_ROUNDING).body.operations:
            module.body.append(function.detach_from_parent())


def _arithmetic(operation: ir.Operation) -> ir.Value | None:
    if not isinstance(operation.results[0].type, ir.BF16Type):
        return None
    operands = [_float32_of(operand) for operand in operation.operands]
    flags = {"fastmath": operation.attributes["fastmath"]} if "fastmath" in operation.attributes else {}
    wide = ir.Operation.create(operation.name, [ir.F32Type.get()], operands, flags)
    return _nearest_bfloat16(wide.result)


def _comparison(operation: ir.Operation) -> ir.Value | None:
    left, right = operation.operands
    if not isinstance(left.type, ir.BF16Type):
        return None
    return arith.cmpf(operation.attributes["predicate"], _float32_of(left), _float32_of(right))


def _selection(operation: ir.Operation) -> ir.Value | None:
    kind, short = operation.results[0].type, ir.IntegerType.get_signless(16)
    if not isinstance(kind, ir.BF16Type):
        return None
    condition, left, right = operation.operands
    return arith.bitcast(kind, arith.select(condition, arith.bitcast(short, left), arith.bitcast(short, right)))


def _narrowed(operation: ir.Operation) -> ir.Value | None:
    source, kind = operation.operands[0], operation.results[0].type
    if not isinstance(source.type, (ir.F32Type, ir.F64Type)):
        return None
    if isinstance(kind, ir.BF16Type):
        return _nearest_bfloat16(to_odd_float32(source) if isinstance(source.type, ir.F64Type) else source)
    if isinstance(kind, ir.F16Type) and isinstance(source.type, ir.F64Type):
        return arith.truncf(kind, to_odd_float32(source))
    return None


def _from_integer(operation: ir.Operation) -> ir.Value | None:
    """Return an integer as bf16 by way of fp32, as torch does; LLVM calls a function that C runtimes may lack."""
    if not isinstance(operation.results[0].type, ir.BF16Type):
        return None
    return _nearest_bfloat16(ir.Operation.create(operation.name, [ir.F32Type.get()], operation.operands).result)


def _widened(operation: ir.Operation) -> ir.Value | None:
    source, kind = operation.operands[0], operation.results[0].type
    if not isinstance(source.type, ir.BF16Type):
        return None
    wide = _float32_of(source)
    return wide if isinstance(kind, ir.F32Type) else arith.extf(kind, wide)


_RULES = {
    **dict.fromkeys(BFLOAT16_ARITHMETIC, _arithmetic), "arith.cmpf": _comparison, "arith.select": _selection,
    "arith.sitofp": _from_integer, "arith.uitofp": _from_integer, "arith.truncf": _narrowed, "arith.extf": _widened,
}  # fmt: skip


def _float32_of(half: ir.Value) -> ir.Value:
    integer, short = ir.IntegerType.get_signless(32), ir.IntegerType.get_signless(16)
    bits = arith.extui(integer, arith.bitcast(short, half))
    return arith.bitcast(ir.F32Type.get(), arith.shli(bits, arith.constant(integer, 16)))


def _nearest_bfloat16(wide: ir.Value) -> ir.Value:
    """Return the bf16 nearest to an fp32. Ties to even: add half the last bit, or less if it is even."""
    integer, short = ir.IntegerType.get_signless(32), ir.IntegerType.get_signless(16)
    bits, sixteen = arith.bitcast(integer, wide), arith.constant(integer, 16)
    odd = arith.andi(arith.shrui(bits, sixteen), arith.constant(integer, 1))
    nearest = arith.shrui(arith.addi(arith.addi(bits, odd), arith.constant(integer, 0x7FFF)), sixteen)
    # The sum of a NaN's bits may be an infinity or a zero.
    is_nan = arith.cmpf(arith.CmpFPredicate.UNO, wide, wide)
    chosen = arith.select(is_nan, arith.constant(integer, 0x7FC0), nearest)
    return arith.bitcast(ir.BF16Type.get(), arith.trunci(short, chosen))


def to_odd_float32(wide: ir.Value) -> ir.Value:
    """Return an fp64 value in fp32, rounded to odd: an inexact value goes to the neighbour with an odd last bit."""
    float32, integer = ir.F32Type.get(), ir.IntegerType.get_signless(32)
    one = arith.constant(integer, 1)
    nearest = arith.truncf(float32, wide)
    bits, back = arith.bitcast(integer, nearest), arith.extf(wide.type, nearest)
    inexact = arith.cmpf(arith.CmpFPredicate.ONE, back, wide)  # false for NaN, which stays as it is
    even = arith.cmpi(arith.CmpIPredicate.eq, arith.andi(bits, one), arith.constant(integer, 0))
    too_small = arith.cmpf(arith.CmpFPredicate.OLT, _magnitude(back), _magnitude(wide))
    # In sign and magnitude, adding 1 to the bits gives the next number away from zero, infinity included.
    neighbour = arith.select(too_small, arith.addi(bits, one), arith.subi(bits, one))
    return arith.bitcast(float32, arith.select(arith.andi(inexact, even), neighbour, bits))


def _magnitude(value: ir.Value) -> ir.Value:
    zero = arith.constant(value.type, 0.0)
    return arith.select(arith.cmpf(arith.CmpFPredicate.OLT, value, zero), arith.negf(value), value)
