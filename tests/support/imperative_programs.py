"""Imperative functions as the `fused` stage has them: loops over tensors, updates, sizes of run time."""

from __future__ import annotations

import re
import textwrap


def function(arguments, results, body, name="f"):
    """A function of that body, whose constants %c0 to %c3 are indices. `arguments`: "%A: tensor<8xf64>, updated 0"."""
    shown = []
    for argument in arguments:
        declared, _, result = argument.partition(", updated ")
        shown.append(f"{declared} {{mlirtri.updated_by = {result} : i64}}" if result else declared)
    indices = "\n".join(f"  %c{number} = arith.constant {number} : index" for number in range(4))
    body = textwrap.indent(textwrap.dedent(body), "  ")
    return f"func.func @{name}({', '.join(shown)}) -> ({', '.join(results)}) {{\n{indices}\n{body}\n}}"


def elementwise(result, operands, kinds, out, lines, element="f64", maps=None):
    """One `linalg.generic` over all axes of `out`; %x0, %x1… are the elements of `operands`, %r is yielded."""
    rank = len(re.findall(r"[\d?]+x", out[1]))
    dims = ", ".join(f"d{axis}" for axis in range(rank))
    maps = maps or [dims] * len(operands)
    shown = ", ".join(f"affine_map<({dims}) -> ({mapping})>" for mapping in [*maps, dims])
    loops = ", ".join(['"parallel"'] * rank)
    elements = [re.sub(r"^tensor<(?:[\d?]+x)*(.*)>$", r"\1", kind) for kind in kinds]
    block = ", ".join(f"%x{position}: {mapping}" for position, mapping in enumerate(elements))
    ins = f"ins({', '.join(operands)} : {', '.join(kinds)}) " if operands else ""
    separator = ", " if operands else ""
    return (
        f"{result} = linalg.generic {{indexing_maps = [{shown}], iterator_types = [{loops}]}} {ins}"
        f"outs({out[0]} : {out[1]}) {{\n"
        f"^bb0({block}{separator}%o: {element}):\n  {lines}\n  linalg.yield %r : {element}\n}} -> {out[1]}"
    )


SQUARE = "tensor<8x8xf64>"
VECTOR = "tensor<8xf64>"

LU = function(
    [f"%A: {SQUARE}, updated 0"],
    [SQUARE],
    """
    %n = arith.constant 8 : index
    %r = scf.for %i = %c0 to %n step %c1 iter_args(%x = %A) -> tensor<8x8xf64> {
      %y = scf.for %j = %c0 to %i step %c1 iter_args(%x1 = %x) -> tensor<8x8xf64> {
        %z = scf.for %k = %c0 to %j step %c1 iter_args(%x2 = %x1) -> tensor<8x8xf64> {
          %a = tensor.extract %x2[%i, %k] : tensor<8x8xf64>
          %b = tensor.extract %x2[%k, %j] : tensor<8x8xf64>
          %c = tensor.extract %x2[%i, %j] : tensor<8x8xf64>
          %p = arith.mulf %a, %b : f64
          %d = arith.subf %c, %p : f64
          %w = tensor.insert %d into %x2[%i, %j] : tensor<8x8xf64>
          scf.yield %w : tensor<8x8xf64>
        }
        %a = tensor.extract %z[%i, %j] : tensor<8x8xf64>
        %b = tensor.extract %z[%j, %j] : tensor<8x8xf64>
        %d = arith.divf %a, %b : f64
        %w = tensor.insert %d into %z[%i, %j] : tensor<8x8xf64>
        scf.yield %w : tensor<8x8xf64>
      }
      %y2 = scf.for %j = %i to %n step %c1 iter_args(%x1 = %y) -> tensor<8x8xf64> {
        %z = scf.for %k = %c0 to %i step %c1 iter_args(%x2 = %x1) -> tensor<8x8xf64> {
          %a = tensor.extract %x2[%i, %k] : tensor<8x8xf64>
          %b = tensor.extract %x2[%k, %j] : tensor<8x8xf64>
          %c = tensor.extract %x2[%i, %j] : tensor<8x8xf64>
          %p = arith.mulf %a, %b : f64
          %d = arith.subf %c, %p : f64
          %w = tensor.insert %d into %x2[%i, %j] : tensor<8x8xf64>
          scf.yield %w : tensor<8x8xf64>
        }
        scf.yield %z : tensor<8x8xf64>
      }
      scf.yield %y2 : tensor<8x8xf64>
    }
    return %r : tensor<8x8xf64>""",
)

SEIDEL = function(
    [f"%A: {SQUARE}, updated 0"],
    [SQUARE],
    """
    %last = arith.constant 7 : index
    %half = arith.constant 0.5 : f64
    %r = scf.for %t = %c0 to %c3 step %c1 iter_args(%x0 = %A) -> tensor<8x8xf64> {
      %y = scf.for %i = %c1 to %last step %c1 iter_args(%x = %x0) -> tensor<8x8xf64> {
        %z = scf.for %j = %c1 to %last step %c1 iter_args(%x1 = %x) -> tensor<8x8xf64> {
          %up = arith.subi %i, %c1 : index
          %left = arith.subi %j, %c1 : index
          %a = tensor.extract %x1[%up, %j] : tensor<8x8xf64>
          %b = tensor.extract %x1[%i, %left] : tensor<8x8xf64>
          %s = arith.addf %a, %b : f64
          %v = arith.mulf %s, %half : f64
          %w = tensor.insert %v into %x1[%i, %j] : tensor<8x8xf64>
          scf.yield %w : tensor<8x8xf64>
        }
        scf.yield %z : tensor<8x8xf64>
      }
      scf.yield %y : tensor<8x8xf64>
    }
    return %r : tensor<8x8xf64>""",
)

PART = "tensor<6xf64>"
JACOBI = function(
    [f"%A: {VECTOR}, updated 0", f"%B: {VECTOR}, updated 1"],
    [VECTOR, VECTOR],
    """
    %third = arith.constant 0.25 : f64
    %r:2 = scf.for %t = %c0 to %c3 step %c1 iter_args(%a = %A, %b = %B) -> (tensor<8xf64>, tensor<8xf64>) {
    """
    + "".join(
        f"""
      %l{to} = tensor.extract_slice %{at}[0] [6] [1] : {VECTOR} to {PART}
      %m{to} = tensor.extract_slice %{at}[1] [6] [1] : {VECTOR} to {PART}
      %h{to} = tensor.extract_slice %{at}[2] [6] [1] : {VECTOR} to {PART}
      %e{to} = tensor.empty() : {PART}
      """
        + elementwise(
            f"%v{to}",
            [f"%l{to}", f"%m{to}", f"%h{to}"],
            [PART] * 3,
            (f"%e{to}", PART),
            "%s = arith.addf %x0, %x1 : f64\n%s2 = arith.addf %s, %x2 : f64\n%r = arith.mulf %s2, %third : f64",
        )
        + f"""
      %new{to} = tensor.insert_slice %v{to} into %{to}[1] [6] [1] : {PART} into {VECTOR}
      """
        for at, to in (("a", "b"), ("newb", "a"))
    )
    + """
      scf.yield %newa, %newb : tensor<8xf64>, tensor<8xf64>
    }
    return %r#0, %r#1 : tensor<8xf64>, tensor<8xf64>""",
)

FLOYD_WARSHALL = function(
    [f"%P: {SQUARE}, updated 0"],
    [SQUARE],
    """
    %n = arith.constant 8 : index
    %r = scf.for %k = %c0 to %n step %c1 iter_args(%p = %P) -> tensor<8x8xf64> {
      %column = tensor.extract_slice %p[0, %k] [8, 1] [1, 1] : tensor<8x8xf64> to tensor<8xf64>
      %row = tensor.extract_slice %p[%k, 0] [1, 8] [1, 1] : tensor<8x8xf64> to tensor<8xf64>
      %e = tensor.empty() : tensor<8x8xf64>
    """
    + elementwise(
        "%v",
        ["%p", "%column", "%row"],
        [SQUARE, VECTOR, VECTOR],
        ("%e", SQUARE),
        "%s = arith.addf %x1, %x2 : f64\n%r = arith.minimumf %x0, %s : f64",
        maps=["d0, d1", "d0", "d1"],
    )
    + """
      scf.yield %v : tensor<8x8xf64>
    }
    return %r : tensor<8x8xf64>""",
)

OVERLAP = function(
    [f"%A: {VECTOR}, updated 0"],
    [VECTOR],
    """
    %s = tensor.extract_slice %A[0] [7] [1] : tensor<8xf64> to tensor<7xf64>
    %r = tensor.insert_slice %s into %A[1] [7] [1] : tensor<7xf64> into tensor<8xf64>
    return %r : tensor<8xf64>""",
)

DOUBLED = elementwise("%d", ["%A"], [VECTOR], ("%e", VECTOR), "%r = arith.addf %x0, %x0 : f64")
# x = 2 * A if s > 0 else A; y = A with y[1] = s if s > 0 else A; A itself is not updated.
BRANCHES = function(
    [f"%A: {VECTOR}", "%s: tensor<f64>"],
    [VECTOR, VECTOR, VECTOR],
    """
    %v = tensor.extract %s[] : tensor<f64>
    %zero = arith.constant 0.0 : f64
    %positive = arith.cmpf ogt, %v, %zero : f64
    %x:2 = scf.if %positive -> (tensor<8xf64>, tensor<8xf64>) {
      %e = tensor.empty() : tensor<8xf64>
    """
    + DOUBLED
    + """
      %w = tensor.insert %v into %A[%c1] : tensor<8xf64>
      scf.yield %d, %w : tensor<8xf64>, tensor<8xf64>
    } else {
      scf.yield %A, %A : tensor<8xf64>, tensor<8xf64>
    }
    return %A, %x#0, %x#1 : tensor<8xf64>, tensor<8xf64>, tensor<8xf64>""",
)

# for i in range(n): A[i, i:] = A[i, i:] * 2 + b[i:]
TRIANGLE = function(
    [f"%A: {SQUARE}, updated 0", f"%b: {VECTOR}", "%n: tensor<i64>"],
    [SQUARE],
    """
    %eight = arith.constant 8 : index
    %n0 = tensor.extract %n[] : tensor<i64>
    %n1 = arith.index_cast %n0 : i64 to index
    %r = scf.for %i = %c0 to %n1 step %c1 iter_args(%a = %A) -> tensor<8x8xf64> {
      %size = arith.subi %eight, %i : index
      %s = tensor.extract_slice %a[%i, %i] [1, %size] [1, 1] : tensor<8x8xf64> to tensor<?xf64>
      %t = tensor.extract_slice %b[%i] [%size] [1] : tensor<8xf64> to tensor<?xf64>
      %e = tensor.empty(%size) : tensor<?xf64>
    """
    + elementwise(
        "%v",
        ["%s", "%t"],
        ["tensor<?xf64>"] * 2,
        ("%e", "tensor<?xf64>"),
        "%u = arith.addf %x0, %x0 : f64\n%r = arith.addf %u, %x1 : f64",
    )
    + """
      %y = tensor.insert_slice %v into %a[%i, %i] [1, %size] [1, 1] : tensor<?xf64> into tensor<8x8xf64>
      scf.yield %y : tensor<8x8xf64>
    }
    return %r : tensor<8x8xf64>""",
)

MATVEC = """
      %e = tensor.empty() : tensor<8xf64>
      %f = linalg.fill ins(%zero : f64) outs(%e : tensor<8xf64>) -> tensor<8xf64>
      %v = linalg.matvec ins(%A, %x : tensor<8x8xf64>, tensor<8xf64>) outs(%f : tensor<8xf64>) -> tensor<8xf64>
"""

# A[:], B[:] = B.copy(), A.copy()
EXCHANGE = function(
    [f"%A: {VECTOR}, updated 0", f"%B: {VECTOR}, updated 1"],
    [VECTOR, VECTOR],
    "return %B, %A : tensor<8xf64>, tensor<8xf64>",
)

# old = A.copy(); A[2] = A[3]; return old, A[2:5]
OLD = function(
    [f"%A: {VECTOR}, updated 1"],
    [VECTOR, VECTOR, "tensor<3xf64>"],
    """
    %v = tensor.extract %A[%c3] : tensor<8xf64>
    %w = tensor.insert %v into %A[%c2] : tensor<8xf64>
    %s = tensor.extract_slice %w[2] [3] [1] : tensor<8xf64> to tensor<3xf64>
    return %A, %w, %s : tensor<8xf64>, tensor<8xf64>, tensor<3xf64>""",
)

# for k in range(7): A[k + 1, 1:] -= A[k, 1:] * A[k, k]
ROWS = function(
    [f"%A: {SQUARE}, updated 0"],
    [SQUARE],
    """
    %n = arith.constant 7 : index
    %r = scf.for %k = %c0 to %n step %c1 iter_args(%a = %A) -> tensor<8x8xf64> {
      %i = arith.addi %k, %c1 : index
      %s = tensor.extract_slice %a[%i, 1] [1, 7] [1, 1] : tensor<8x8xf64> to tensor<7xf64>
      %t = tensor.extract_slice %a[%k, 1] [1, 7] [1, 1] : tensor<8x8xf64> to tensor<7xf64>
      %d = tensor.extract %a[%k, %k] : tensor<8x8xf64>
      %e = tensor.empty() : tensor<7xf64>
    """
    + elementwise(
        "%v",
        ["%s", "%t"],
        ["tensor<7xf64>"] * 2,
        ("%e", "tensor<7xf64>"),
        "%u = arith.mulf %x1, %d : f64\n%r = arith.subf %x0, %u : f64",
    )
    + """
      %y = tensor.insert_slice %v into %a[%i, 1] [1, 7] [1, 1] : tensor<7xf64> into tensor<8x8xf64>
      scf.yield %y : tensor<8x8xf64>
    }
    return %r : tensor<8x8xf64>""",
)

# x = zeros(8); x[2:n] = 1; return concatenate((A, A[:n], x))
PARTS = function(
    ["%A: tensor<8xf64>", "%n: tensor<i64>"],
    ["tensor<8xf64>", "tensor<f64>"],
    """
    %zeros = arith.constant dense<0.0> : tensor<8xf64>
    %ones = arith.constant dense<1.0> : tensor<8xf64>
    %n0 = tensor.extract %n[] : tensor<i64>
    %n1 = arith.index_cast %n0 : i64 to index
    %part = tensor.extract_slice %ones[0] [%n1] [1] : tensor<8xf64> to tensor<?xf64>
    %x = tensor.insert_slice %part into %zeros[1] [%n1] [1] : tensor<?xf64> into tensor<8xf64>
    %s = tensor.extract_slice %A[0] [%n1] [1] : tensor<8xf64> to tensor<?xf64>
    %c = tensor.concat dim(0) %A, %s, %x : (tensor<8xf64>, tensor<?xf64>, tensor<8xf64>) -> tensor<?xf64>
    %ten = arith.constant 10 : index
    %last = arith.addi %ten, %n1 : index
    %v = tensor.extract %c[%last] : tensor<?xf64>
    %z = tensor.from_elements %v : tensor<f64>
    return %x, %z : tensor<8xf64>, tensor<f64>""",
)

# for k in range(1, 7): A[k, 1:7] = A[k - 1, 1:7] + A[k, 1:7] + A[k + 1, 1:7]
COLUMNS = function(
    [f"%A: {SQUARE}, updated 0"],
    [SQUARE],
    """
    %n = arith.constant 7 : index
    %r = scf.for %k = %c1 to %n step %c1 iter_args(%a = %A) -> tensor<8x8xf64> {
      %h = arith.subi %k, %c1 : index
      %l = arith.addi %k, %c1 : index
      %s = tensor.extract_slice %a[%k, 1] [1, 6] [1, 1] : tensor<8x8xf64> to tensor<6xf64>
      %t = tensor.extract_slice %a[%h, 1] [1, 6] [1, 1] : tensor<8x8xf64> to tensor<6xf64>
      %u = tensor.extract_slice %a[%l, 1] [1, 6] [1, 1] : tensor<8x8xf64> to tensor<6xf64>
      %e = tensor.empty() : tensor<6xf64>
    """
    + elementwise(
        "%v",
        ["%t", "%s", "%u"],
        ["tensor<6xf64>"] * 3,
        ("%e", "tensor<6xf64>"),
        "%p = arith.addf %x0, %x1 : f64\n%r = arith.addf %p, %x2 : f64",
    )
    + """
      %y = tensor.insert_slice %v into %a[%k, 1] [1, 6] [1, 1] : tensor<6xf64> into tensor<8x8xf64>
      scf.yield %y : tensor<8x8xf64>
    }
    return %r : tensor<8x8xf64>""",
)

# A[1:] = A[:-1] three times in a row; all insert into %A, as canonicalization leaves it
THRICE = function(
    [f"%A: {VECTOR}, updated 0"],
    [VECTOR],
    """
    %s = tensor.extract_slice %A[0] [7] [1] : tensor<8xf64> to tensor<7xf64>
    %r = tensor.insert_slice %s into %A[1] [7] [1] : tensor<7xf64> into tensor<8xf64>
    %s2 = tensor.extract_slice %r[0] [7] [1] : tensor<8xf64> to tensor<7xf64>
    %r2 = tensor.insert_slice %s2 into %A[1] [7] [1] : tensor<7xf64> into tensor<8xf64>
    %s3 = tensor.extract_slice %r2[0] [7] [1] : tensor<8xf64> to tensor<7xf64>
    %r3 = tensor.insert_slice %s3 into %A[1] [7] [1] : tensor<7xf64> into tensor<8xf64>
    return %r3 : tensor<8xf64>""",
)
