"""Imperative functions whose loops hand arrays from one turn to the next; the comments are their Python."""

from __future__ import annotations

import imperative_programs
from imperative_programs import DOUBLED, MATVEC, PART, SQUARE, VECTOR, elementwise, function


def program(name):
    """The program of that name, also of those whose loops carry no arrays."""
    return globals().get(name) or getattr(imperative_programs, name)


# Two loops that stop early: the first multiple of 7 above %n in each row, or the row's last element.
WHILE = function(
    ["%A: tensor<4x9xi64>", "%least: tensor<i64>"],
    ["tensor<4xi64>"],
    """
    %n = tensor.extract %least[] : tensor<i64>
    %rows = arith.constant 4 : index
    %columns = arith.constant 9 : index
    %zero = arith.constant 0 : i64
    %seven = arith.constant 7 : i64
    %true = arith.constant true
    %e = tensor.empty() : tensor<4xi64>
    %f = linalg.fill ins(%zero : i64) outs(%e : tensor<4xi64>) -> tensor<4xi64>
    %r:2 = scf.while (%i = %c0, %found = %f) : (index, tensor<4xi64>) -> (index, tensor<4xi64>) {
      %more = arith.cmpi slt, %i, %rows : index
      scf.condition(%more) %i, %found : index, tensor<4xi64>
    } do {
    ^bb0(%i: index, %found: tensor<4xi64>):
      %w:3 = scf.while (%j = %c0, %go = %true, %x = %found) : (index, i1, tensor<4xi64>)
          -> (index, i1, tensor<4xi64>) {
        %inside = arith.cmpi slt, %j, %columns : index
        %more = arith.andi %inside, %go : i1
        scf.condition(%more) %j, %go, %x : index, i1, tensor<4xi64>
      } do {
      ^bb0(%j: index, %go: i1, %x: tensor<4xi64>):
        %v = tensor.extract %A[%i, %j] : tensor<4x9xi64>
        %y = tensor.insert %v into %x[%i] : tensor<4xi64>
        %m = arith.remsi %v, %seven : i64
        %multiple = arith.cmpi eq, %m, %zero : i64
        %large = arith.cmpi sgt, %v, %n : i64
        %stop = arith.andi %multiple, %large : i1
        %next = arith.addi %j, %c1 : index
        %going = arith.xori %stop, %true : i1
        scf.yield %next, %going, %y : index, i1, tensor<4xi64>
      }
      %next = arith.addi %i, %c1 : index
      scf.yield %next, %w#2 : index, tensor<4xi64>
    }
    return %r#1 : tensor<4xi64>""",
)

# for t in range(3): x = table[x]
GATHER = function(
    ["%table: tensor<8xi64>", "%x: tensor<5xi64>"],
    ["tensor<5xi64>"],
    """
    %r = scf.for %t = %c0 to %c3 step %c1 iter_args(%p = %x) -> tensor<5xi64> {
      %e = tensor.empty() : tensor<5xi64>
    """
    + elementwise(
        "%v",
        ["%p"],
        ["tensor<5xi64>"],
        ("%e", "tensor<5xi64>"),
        "%i = arith.index_cast %x0 : i64 to index\n%r = tensor.extract %table[%i] : tensor<8xi64>",
        element="i64",
    )
    + """
      scf.yield %v : tensor<5xi64>
    }
    return %r : tensor<5xi64>""",
)
# for t in range(3): x = A @ x
POWER = function(
    [f"%A: {SQUARE}", f"%b: {VECTOR}"],
    [VECTOR],
    f"""
    %zero = arith.constant 0.0 : f64
    %r = scf.for %t = %c0 to %c3 step %c1 iter_args(%x = %b) -> tensor<8xf64> {{
    {MATVEC}
      scf.yield %v : tensor<8xf64>
    }}
    return %r : tensor<8xf64>""",
)

# for t in range(3): x, y = y, A @ x
SWAP = function(
    [f"%A: {SQUARE}", f"%b: {VECTOR}", f"%c: {VECTOR}"],
    [VECTOR, VECTOR],
    f"""
    %zero = arith.constant 0.0 : f64
    %r:2 = scf.for %t = %c0 to %c3 step %c1 iter_args(%x = %b, %y = %c) -> (tensor<8xf64>, tensor<8xf64>) {{
    {MATVEC}
      scf.yield %y, %v : tensor<8xf64>, tensor<8xf64>
    }}
    return %r#0, %r#1 : tensor<8xf64>, tensor<8xf64>""",
)

# x, y carried; every iteration swaps them and nothing else
ROTATE = function(
    [f"%A: {VECTOR}, updated 0", f"%B: {VECTOR}, updated 1", "%n: tensor<i64>"],
    [VECTOR, VECTOR],
    """
    %n0 = tensor.extract %n[] : tensor<i64>
    %n1 = arith.index_cast %n0 : i64 to index
    %r:2 = scf.for %t = %c0 to %n1 step %c1 iter_args(%x = %A, %y = %B) -> (tensor<8xf64>, tensor<8xf64>) {
      scf.yield %y, %x : tensor<8xf64>, tensor<8xf64>
    }
    return %r#0, %r#1 : tensor<8xf64>, tensor<8xf64>""",
)

# for i in range(n): z = z * z + c, on complex numbers
MANDELBROT = function(
    ["%c: tensor<4xcomplex<f64>>", "%n: tensor<i64>"],
    ["tensor<4xcomplex<f64>>"],
    """
    %n0 = tensor.extract %n[] : tensor<i64>
    %n1 = arith.index_cast %n0 : i64 to index
    %r = scf.for %t = %c0 to %n1 step %c1 iter_args(%z = %c) -> tensor<4xcomplex<f64>> {
      %e = tensor.empty() : tensor<4xcomplex<f64>>
    """
    + elementwise(
        "%v",
        ["%z", "%c"],
        ["tensor<4xcomplex<f64>>"] * 2,
        ("%e", "tensor<4xcomplex<f64>>"),
        "%s = complex.mul %x0, %x0 : complex<f64>\n%r = complex.add %s, %x1 : complex<f64>",
        element="complex<f64>",
    )
    + """
      scf.yield %v : tensor<4xcomplex<f64>>
    }
    return %r : tensor<4xcomplex<f64>>""",
)

# x = sin(b); y = x.copy(); if s > 0: y[1] = s; return x, y
COPY_IN_BRANCH = function(
    [f"%A: {VECTOR}", "%s: tensor<f64>"],
    [VECTOR, VECTOR],
    """
    %v = tensor.extract %s[] : tensor<f64>
    %zero = arith.constant 0.0 : f64
    %positive = arith.cmpf ogt, %v, %zero : f64
    %e = tensor.empty() : tensor<8xf64>
    """
    + DOUBLED
    + """
    %y = scf.if %positive -> tensor<8xf64> {
      %w = tensor.insert %v into %d[%c1] : tensor<8xf64>
      scf.yield %w : tensor<8xf64>
    } else {
      scf.yield %d : tensor<8xf64>
    }
    return %d, %y : tensor<8xf64>, tensor<8xf64>""",
)

# while x[0] < 1: old = x.copy(); x += 1; x[1] += old[1]; total = sum(x - old)
LATE = function(
    [f"%A: {VECTOR}, updated 0"],
    [VECTOR, "tensor<f64>"],
    """
    %one = arith.constant 1.0 : f64
    %zero = arith.constant 0.0 : f64
    %r:2 = scf.while (%x = %A, %sum = %zero) : (tensor<8xf64>, f64) -> (f64, tensor<8xf64>) {
      %first = tensor.extract %x[%c0] : tensor<8xf64>
      %more = arith.cmpf olt, %first, %one : f64
      scf.condition(%more) %sum, %x : f64, tensor<8xf64>
    } do {
    ^bb0(%sum: f64, %x: tensor<8xf64>):
      %e = tensor.empty() : tensor<8xf64>
    """
    + elementwise("%y", ["%x"], [VECTOR], ("%e", VECTOR), "%r = arith.addf %x0, %one : f64")
    + """
      %n = tensor.extract %y[%c1] : tensor<8xf64>
      %o = tensor.extract %x[%c1] : tensor<8xf64>
      %s = arith.addf %n, %o : f64
      %z = tensor.insert %s into %y[%c1] : tensor<8xf64>
      %m = tensor.extract %z[%c1] : tensor<8xf64>
      %q = tensor.extract %x[%c2] : tensor<8xf64>
      %t = arith.subf %m, %q : f64
      %w = scf.for %i = %c0 to %c3 step %c1 iter_args(%v = %z) -> tensor<8xf64> {
        %g = tensor.extract %z[%i] : tensor<8xf64>
        %h = tensor.extract %v[%c3] : tensor<8xf64>
        %k = arith.addf %g, %h : f64
        %u = tensor.insert %k into %v[%i] : tensor<8xf64>
        scf.yield %u : tensor<8xf64>
      }
      scf.yield %w, %t : tensor<8xf64>, f64
    }
    %total = tensor.from_elements %r#0 : tensor<f64>
    return %r#1, %total : tensor<8xf64>, tensor<f64>""",
)

# y = A if s > 0 else B; y[1] = s (of a copy)
CHOICE = function(
    [f"%A: {VECTOR}", f"%B: {VECTOR}", "%s: tensor<f64>"],
    [VECTOR],
    """
    %v = tensor.extract %s[] : tensor<f64>
    %zero = arith.constant 0.0 : f64
    %positive = arith.cmpf ogt, %v, %zero : f64
    %y = arith.select %positive, %A, %B : tensor<8xf64>
    %w = tensor.insert %v into %y[%c1] : tensor<8xf64>
    return %w : tensor<8xf64>""",
)


# for i in range(3): t = B * 2; s = sum(A[:4]); B[0] = s (if `busy`); A[0:8] = t
def late_insertion(busy):
    return function(
        ["%A: tensor<16xf64>, updated 0", f"%B: {VECTOR}, updated 1"],
        ["tensor<16xf64>", VECTOR],
        """
    %r:2 = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %A, %b = %B) -> (tensor<16xf64>, tensor<8xf64>) {
      %e = tensor.empty() : tensor<8xf64>
    """
        + elementwise("%t", ["%b"], [VECTOR], ("%e", VECTOR), "%r = arith.addf %x0, %x0 : f64")
        + f"""
      %s = tensor.extract %a[%c2] : tensor<16xf64>
      %n = tensor.insert %s into %b[%c0] : {VECTOR}
      %m = tensor.insert %s into {"%n" if busy else "%a"}[%c1] : {VECTOR if busy else "tensor<16xf64>"}
      %w = tensor.insert_slice %t into {"%a" if busy else "%m"}[0] [8] [1] : {VECTOR} into tensor<16xf64>
      scf.yield %w, {"%m" if busy else "%b"} : tensor<16xf64>, {VECTOR}
    }}
    return %r#0, %r#1 : tensor<16xf64>, {VECTOR}""",
    )


PING_PONG_PARTS = "".join(f"  %s{at} = tensor.extract_slice %x[{at}] [6] [1] : {VECTOR} to {PART}\n" for at in range(3))
# for t in range(3): new = zeros(8); new[1:-1] = x[:-2] + x[1:-1] + x[2:]; old, x = x, new
PING_PONG = function(
    [f"%A: {VECTOR}", f"%B: {VECTOR}"],
    [VECTOR, VECTOR],
    """
    %zero = arith.constant 0.0 : f64
    %r:2 = scf.for %t = %c0 to %c3 step %c1 iter_args(%old = %B, %x = %A) -> (tensor<8xf64>, tensor<8xf64>) {
      %e = tensor.empty() : tensor<8xf64>
      %f = linalg.fill ins(%zero : f64) outs(%e : tensor<8xf64>) -> tensor<8xf64>
      %e2 = tensor.empty() : tensor<6xf64>
    """
    + PING_PONG_PARTS
    + elementwise(
        "%v",
        ["%s0", "%s1", "%s2"],
        [PART] * 3,
        ("%e2", PART),
        "%p = arith.addf %x0, %x1 : f64\n%r = arith.addf %p, %x2 : f64",
    )
    + """
      %new = tensor.insert_slice %v into %f[1] [6] [1] : tensor<6xf64> into tensor<8xf64>
      scf.yield %x, %new : tensor<8xf64>, tensor<8xf64>
    }
    return %r#0, %r#1 : tensor<8xf64>, tensor<8xf64>""",
)
