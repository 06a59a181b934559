"""Element by element: unary and binary functions, dtypes and promotion, comparisons, bits, casts, masks."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from torch_cases.makers import b, c, f, i, n, p, u

UNARY = {
    "abs": n, "neg": n, "sign": n, "sgn": f, "signbit": n, "ceil": n, "floor": n, "trunc": n, "round": f, "frac": f,
    "sqrt": p, "rsqrt": p, "square": f, "reciprocal": n, "exp": n, "exp2": f, "expm1": f, "log": p, "log2": p,
    "log10": p, "log1p": p, "sin": f, "cos": f, "tan": u, "asin": u, "acos": u, "atan": n, "sinh": f, "cosh": f,
    "tanh": n, "asinh": f, "atanh": u, "erf": n, "erfc": f, "sigmoid": n, "logit": lambda *shape: p(*shape) / 3,
    "deg2rad": f, "rad2deg": f, "positive": f, "isnan": n, "isinf": n, "isfinite": n, "isposinf": n, "isneginf": n,
    "sinc": f, "digamma": p, "lgamma": p, "i0": f, "erfinv": u,
}  # fmt: skip
"""Functions of one tensor, with what they are tried on."""

ACTIVATIONS = (
    "relu", "relu6", "elu", "selu", "celu", "gelu", "silu", "mish", "softplus", "softsign", "tanhshrink", "hardtanh",
    "hardsigmoid", "hardswish", "hardshrink", "softshrink", "leaky_relu", "logsigmoid",
)  # fmt: skip

BINARY = {
    "add": f, "sub": f, "mul": f, "div": p, "maximum": n, "minimum": n, "fmax": n, "fmin": n, "atan2": f, "pow": p,
    "fmod": p, "remainder": f, "floor_divide": p, "true_divide": p, "hypot": f, "logaddexp": f, "logaddexp2": f,
    "copysign": f, "xlogy": p, "eq": n, "ne": n, "lt": n, "le": n, "gt": n, "ge": n, "nextafter": f, "heaviside": f,
}  # fmt: skip

INTEGER = {
    "add": f, "sub": f, "mul": f, "maximum": f, "minimum": f, "bitwise_and": f, "bitwise_or": f, "bitwise_xor": f,
    "eq": f, "lt": f, "ge": f, "true_divide": f,
}  # fmt: skip

DTYPES = (torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int8, torch.uint8)


def _divisions():
    """Whose quotients do not fit, are not finite, or are as good as whole."""
    infinity, nan = float("inf"), float("nan")
    return (
        torch.tensor([1e10, 7.0, 1e30, 1e-40, 5.0, 0.0, infinity, nan, 3.0, 6.0, 0.9, 1.0]),
        torch.tensor([0.3, 2.0, 3e-5, 1e-42, infinity, 2.0, 2.0, 2.0, 0.0, 0.1, 0.3, 0.1]),
    )


def _spread():
    """Of both signs, with whole numbers and what is no number."""
    infinity, nan = float("inf"), float("nan")
    return torch.tensor(
        [
            infinity,
            nan,
            0.0,
            -0.0,
            -1.0,
            -2.0,
            -0.5,
            -2.75,
            -7.3,
            1e-20,
            1e-3,
            0.3,
            0.7,
            1.0,
            1.5,
            2.0,
            3.7,
            12.0,
            40.0,
        ],
        dtype=torch.float64,
    )


CASES = [
    *((f"unary {name}", getattr(torch, name), lambda make=make: (make(3, 5),)) for name, make in UNARY.items()),
    # Eager's gelu of infinity is NaN or infinity, depending on its vector code.
    *(
        (f"activation {name}", getattr(F, name), lambda m=f if name == "gelu" else n: (m(3, 5),))
        for name in ACTIVATIONS
    ),
    *((f"binary {name}", getattr(torch, name), lambda m=make: (m(3, 5), m(3, 5))) for name, make in BINARY.items()),
    *(
        (f"int32 {name}", getattr(torch, name), lambda: (i(7, dtype=torch.int32), i(7, dtype=torch.int32)))
        for name in INTEGER
    ),
    *((f"add {dtype}", torch.add, lambda d=dtype: (i(4, 3).to(d), i(3).to(d))) for dtype in DTYPES),
    *((f"mul {dtype}", torch.mul, lambda d=dtype: (i(4, 3).to(d), i(4, 1).to(d))) for dtype in DTYPES),
    *((f"abs {dtype}", torch.abs, lambda d=dtype: (i(4, 3).to(d),)) for dtype in DTYPES),
    *((f"exp {dtype}", torch.exp, lambda d=dtype: (i(4, 3, low=0).to(d),)) for dtype in DTYPES),
    *((f"relu {dtype}", torch.relu, lambda d=dtype: (i(4, 3).to(d),)) for dtype in DTYPES),
    *((f"gt {dtype}", lambda x: x > 2, lambda d=dtype: (i(4, 3).to(d),)) for dtype in DTYPES),
    *((f"to {dtype}", lambda x, d=dtype: x.to(d), lambda: (f(4, 3).abs() * 9,)) for dtype in DTYPES),
    *((f"to float from {dtype}", lambda x: x.float(), lambda d=dtype: (i(4, 3, low=0).to(d),)) for dtype in DTYPES),
    *((f"to bool from {dtype}", lambda x: x.bool(), lambda d=dtype: (i(4, 3).to(d),)) for dtype in DTYPES),
    ("bool from nan", lambda x: x.bool(), lambda: (n(2, 4),)),
    ("float from bool", lambda x: x.float(), lambda: (b(7),)),
    ("int64 from bool sum", lambda x: x.long() + 3, lambda: (b(7),)),
    ("int from float truncates", lambda x: x.int(), lambda: (f(9) * 10,)),
    ("maximum nan first", torch.maximum, lambda: (n(2, 5), f(5))),
    ("minimum nan second", torch.minimum, lambda: (f(5), n(2, 5))),
    ("maximum number", lambda x: torch.maximum(x, torch.tensor(0.5)), lambda: (n(2, 5),)),
    ("compare signs", lambda x, y: x > y, lambda: (i(9, low=0, high=250, dtype=torch.uint8), i(9, dtype=torch.int8))),
    ("compare int with float", lambda x: x > 2.5, lambda: (i(9),)),
    ("clamp nan tensor", lambda x: x.clamp(min=torch.tensor(1)), lambda: (n(2, 5),)),
    ("promotion int float", torch.add, lambda: (i(5), f(5))),
    ("promotion int32 int64", torch.mul, lambda: (i(5, dtype=torch.int32), i(5))),
    ("promotion half float", torch.mul, lambda: (f(5, dtype=torch.float16), f(5))),
    ("promotion uint8 int8", torch.add, lambda: (i(5, low=0, dtype=torch.uint8), i(5, dtype=torch.int8))),
    ("promotion bool int", torch.add, lambda: (b(5), i(5))),
    ("promotion scalar", lambda x: x * 2.5, lambda: (i(5),)),
    ("promotion zero dim", torch.mul, lambda: (f(5), torch.tensor(2.5, dtype=torch.float64))),
    ("float64 scalar minus", lambda x: 0.1 - x, lambda: (f(5, dtype=torch.float64),)),
    *(
        (f"{name} of float64", getattr(torch, name), lambda: (_spread(),))
        for name in ("erfc", "lgamma", "digamma", "i0", "erfinv")
    ),
    ("erfinv close to one", torch.erfinv, lambda: (1 - torch.logspace(-9, -1, 9, dtype=torch.float64),)),
    ("erfc far out", torch.erfc, lambda: (torch.linspace(0, 26, 40, dtype=torch.float64),)),
    ("i0 large", torch.i0, lambda: (torch.linspace(-700, 700, 15, dtype=torch.float64),)),
    ("lgamma of halves", torch.lgamma, lambda: (p(7, dtype=torch.float16),)),
    ("int scalar minus", lambda x: 3 - x, lambda: (i(5),)),
    ("float scalar over", lambda x: 1.5 / x, lambda: (p(5),)),
    ("add alpha", lambda x, y: torch.add(x, y, alpha=2.5), lambda: (f(3, 4), f(4))),
    ("sub alpha", lambda x, y: torch.sub(x, y, alpha=3), lambda: (i(3, 4), i(4))),
    ("rsub", lambda x, y: torch.rsub(x, y), lambda: (f(3, 4), f(4))),
    ("broadcast both", torch.add, lambda: (f(3, 1, 5), f(4, 1))),
    ("broadcast zero dim", torch.sub, lambda: (f(), f(4, 2))),
    ("broadcast size one", torch.mul, lambda: (f(1), f(4, 2))),
    ("addcmul", lambda x, y, z: torch.addcmul(x, y, z, value=0.5), lambda: (f(3, 4), f(4), f(3, 1))),
    ("addcdiv", lambda x, y, z: torch.addcdiv(x, y, z, value=2), lambda: (f(3, 4), f(4), p(3, 1))),
    ("lerp scalar", lambda x, y: torch.lerp(x, y, 0.3), lambda: (f(5), f(5))),
    ("lerp tensor", torch.lerp, lambda: (f(5), f(5), f(5))),
    ("pow scalar 2", lambda x: x**2, lambda: (f(6),)),
    ("pow scalar 0.5", lambda x: x**0.5, lambda: (p(6),)),
    ("pow scalar -1", lambda x: x**-1, lambda: (p(6),)),
    ("pow int", lambda x: x**3, lambda: (i(6),)),
    ("pow of ints", lambda x, y: x**y, lambda: (i(4, 6), i(6, low=-3, high=20, dtype=torch.int32))),
    ("pow of bytes", lambda x, y: x**y, lambda: (i(9, dtype=torch.uint8), i(9, low=0, dtype=torch.uint8))),
    ("pow of an int", lambda x: 3**x, lambda: (i(6, low=0),)),
    ("pow int 100", lambda x: x**100, lambda: (i(6),)),
    ("pow of scalar", lambda x: torch.pow(2.0, x), lambda: (f(6),)),
    ("clamp both", lambda x: x.clamp(-0.5, 0.7), lambda: (n(3, 4),)),
    ("clamp low", lambda x: x.clamp(min=0), lambda: (i(8),)),
    ("clamp high", lambda x: torch.clamp_max(x, 0.3), lambda: (f(8),)),
    ("clamp tensors", torch.clamp, lambda: (f(3, 4), f(4) - 1, f(4) + 1)),
    ("div floor", lambda x, y: torch.div(x, y, rounding_mode="floor"), lambda: (f(6), p(6))),
    ("div trunc", lambda x, y: torch.div(x, y, rounding_mode="trunc"), lambda: (f(6) * 5, p(6))),
    ("div floor int", lambda x, y: torch.div(x, y, rounding_mode="floor"), lambda: (i(9), i(9, low=1))),
    ("div trunc int", lambda x, y: torch.div(x, y, rounding_mode="trunc"), lambda: (i(9), i(9, low=1))),
    ("div floor uint8", lambda x: (x + 3) // 2, lambda: (i(9, low=0, high=250, dtype=torch.uint8),)),
    ("bytes divided", lambda x: (x % 7, x // -3, x % -7), lambda: (i(9, low=-128, high=128, dtype=torch.int8),)),
    ("uint8 times", lambda x: (x * 2, x - 3, x + 300, 7 * x), lambda: (i(9, low=0, high=250, dtype=torch.uint8),)),
    ("remainder of a number", lambda x, y: (7 % x, -7.5 % y), lambda: (i(9, low=1), p(9))),
    ("shift of a number", lambda x: (1 << x, 200 >> x), lambda: (i(9, low=0),)),
    ("threshold backward int", lambda x, y: torch.ops.aten.threshold_backward(x, y, 0.5), lambda: (i(9), f(9))),
    ("complex64 with complex128", torch.mul, lambda: (c(5), c(5, dtype=torch.complex128))),
    ("complex from float", lambda x: x.to(torch.complex128), lambda: (f(5),)),
    ("div int is float", torch.div, lambda: (i(9), i(9, low=1))),
    ("remainder int", torch.remainder, lambda: (i(9), i(9, low=1))),
    ("remainder scalar", lambda x: x % 3, lambda: (i(9),)),
    ("remainder negative scalar", lambda x: x % -3, lambda: (i(9),)),
    ("fmod int", torch.fmod, lambda: (i(9), i(9, low=1))),
    ("fmod scalar", lambda x: torch.fmod(x, 1.5), lambda: (f(9) * 3,)),
    ("floor divide scalar", lambda x: x // 2, lambda: (i(9),)),
    (
        "floor divide large int",
        lambda x: (x // 3, x // -7, x // x.roll(1)),
        lambda: (torch.arange(1, 9) * (2**58 + 1),),
    ),
    ("neg large int", torch.neg, lambda: (torch.arange(-4, 5) * (2**58 + 1),)),
    ("neg large int32", torch.neg, lambda: ((torch.arange(-4, 5) * (2**28 + 1)).int(),)),
    ("round decimals", lambda x: torch.round(x, decimals=2), lambda: (f(9),)),
    ("round half even", torch.round, lambda: (torch.arange(-4, 5) / 2,)),
    ("bitwise not int", torch.bitwise_not, lambda: (i(9),)),
    ("bitwise not bool", torch.bitwise_not, lambda: (b(9),)),
    ("bitwise and bool", torch.bitwise_and, lambda: (b(9), b(9))),
    ("bitwise xor scalar", lambda x: x ^ 5, lambda: (i(9),)),
    ("shift left", lambda x: x << 3, lambda: (i(9),)),
    ("shift right", lambda x, y: x >> y, lambda: (i(9), i(9, low=0))),
    ("shift right uint8", lambda x: x >> 2, lambda: (i(9, low=0, high=250, dtype=torch.uint8),)),
    ("logical and", torch.logical_and, lambda: (i(9), f(9))),
    ("logical or", torch.logical_or, lambda: (b(9), b(9))),
    ("logical xor", torch.logical_xor, lambda: (b(9), b(9))),
    ("logical not", torch.logical_not, lambda: (i(9),)),
    ("where", torch.where, lambda: (b(3, 4), f(3, 4), f(4))),
    ("where scalar", lambda m, x: torch.where(m, x, 0.0), lambda: (b(3, 4), f(3, 4))),
    ("where promotes", torch.where, lambda: (b(4), i(4), f(4))),
    ("signs of integers", torch.copysign, lambda: (i(9), i(9))),
    ("sign of a number", lambda x: torch.copysign(x, -0.0), lambda: (n(9),)),
    ("sign bits of integers", torch.signbit, lambda: (i(9, dtype=torch.int8),)),
    ("neighbours of float64", torch.nextafter, lambda: (n(9).double(), f(9).double())),
    ("masked fill", lambda x, m: x.masked_fill(m, float("-inf")), lambda: (f(3, 4), b(3, 4))),
    ("masked fill broadcast", lambda x, m: x.masked_fill(m, 2), lambda: (i(3, 4), b(4))),
    ("masked fill tensor", lambda x, m, v: x.masked_fill(m, v), lambda: (f(3, 4), b(3, 4), f())),
    ("nan to num", lambda x: torch.nan_to_num(x, 1.0, 2.0, -3.0), lambda: (n(8),)),
    ("isclose", lambda x, y: torch.isclose(x, y, atol=0.5), lambda: (f(9), f(9))),
    ("isclose itself", lambda x: (torch.isclose(x, x), torch.isclose(x, x, equal_nan=True)), lambda: (n(9),)),
    ("equal to itself", lambda x: (x == x, x + 1 == x + 1), lambda: (n(9),)),
    ("fmod large", lambda x, y: (torch.fmod(x, y), torch.fmod(-x, y), torch.fmod(x, -y)), _divisions),
    ("floor divide floats", lambda x, y: (x // y, -x // y), _divisions),
    ("floor divide half", lambda x, y: (x.half() // y.half(), x // 0.3), _divisions),
    ("xlogy of zero", lambda x: (torch.xlogy(0, x), torch.xlogy(torch.zeros(9), x)), lambda: (n(9),)),
    ("xlog1py of zero", lambda x: torch.special.xlog1py(0.0, x), lambda: (n(9),)),
    ("gelu tanh", lambda x: F.gelu(x, approximate="tanh"), lambda: (f(4, 4),)),
    ("elu alpha", lambda x: F.elu(x, 0.4), lambda: (f(8),)),
    ("leaky relu slope", lambda x: F.leaky_relu(x, 0.3), lambda: (f(8),)),
    ("threshold", lambda x: F.threshold(x, 0.2, -1.0), lambda: (f(8),)),
    ("prelu", F.prelu, lambda: (f(2, 3, 4), p(3))),
    ("prelu one weight", F.prelu, lambda: (f(2, 3, 4), p(1))),
    ("rrelu eval", lambda x: F.rrelu(x, 0.1, 0.3, False), lambda: (f(8),)),
    ("glu", lambda x: F.glu(x, 1), lambda: (f(3, 6),)),
    ("softplus beta", lambda x: F.softplus(x, 2.0, 5.0), lambda: (f(9) * 5,)),
    ("hardtanh range", lambda x: F.hardtanh(x, -0.2, 0.4), lambda: (f(9),)),
    ("hardtanh of integers", lambda x: F.hardtanh(x, -2.5, 3.5), lambda: (i(9),)),
    ("complex add", torch.add, lambda: (c(5), c(5))),
    ("complex equal", lambda x: (x == x.flip(0), x != 1j, x.mean(0)), lambda: (c(5),)),
    ("complex mul", torch.mul, lambda: (c(5), c(5))),
    ("complex abs", torch.abs, lambda: (c(5),)),
    ("complex real", lambda x: x.real, lambda: (c(5),)),
    ("complex imag", lambda x: x.imag, lambda: (c(5),)),
    ("complex made", torch.complex, lambda: (f(5), f(5))),
    ("complex view", lambda x: torch.view_as_real(x) * 2, lambda: (c(5),)),
    ("complex of view", lambda x: torch.view_as_complex(x) * 2, lambda: (f(5, 2),)),
    ("complex exp", torch.exp, lambda: (c(5),)),
    ("complex div", torch.div, lambda: (c(5), c(5))),
    ("complex conj", lambda x: x.conj() * 2, lambda: (c(5),)),
    ("complex128 sub", torch.sub, lambda: (c(5, dtype=torch.complex128), c(5, dtype=torch.complex128))),
    ("complex angle", torch.angle, lambda: (c(5),)),
    ("empty add", torch.add, lambda: (f(0, 3), f(3))),
    ("empty exp", torch.exp, lambda: (f(2, 0),)),
    ("zero dim exp", torch.exp, lambda: (f(),)),
    ("half gelu", F.gelu, lambda: (f(16, dtype=torch.float16),)),
    ("bfloat16 silu", F.silu, lambda: (f(16, dtype=torch.bfloat16),)),
    ("double tanh", torch.tanh, lambda: (f(16, dtype=torch.float64),)),
    ("double erf", torch.erf, lambda: (f(16, dtype=torch.float64),)),
    ("threshold int", lambda x: F.threshold(x, 2, 9), lambda: (i(8),)),
    ("chain", lambda x, y: ((x + y).relu() * y.sigmoid() - x.tanh()).abs().sqrt(), lambda: (f(4, 5), f(5))),
    (
        "bytes by floats",
        lambda x, y: (x * y, y * x, x * 1.5, torch.where(y > 0, x, y)),
        lambda: (i(2, 4, low=0, high=256, dtype=torch.uint8), f(2, 4)),
    ),
    (
        "bytes by integers",
        lambda x, y: (x * y, torch.where(y > 0, x, y)),
        lambda: (i(2, 4, low=0, high=256, dtype=torch.uint8), i(4, dtype=torch.int32)),
    ),
]
