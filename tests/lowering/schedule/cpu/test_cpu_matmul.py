"""The CPU rule for products: every way that it has, over odd sizes, dtypes, layouts and surroundings."""

from __future__ import annotations

import pytest
import torch
from combinations import in_turn
from tolerances import within
from tvm_stage_helpers import context_for, module, op, random, rules_of, run, tir_of

import mlirtri as mt
from mlirtri.lowering.codegen import targets
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.schedule import tir_to_scheduled
from mlirtri.lowering.schedule.cpu.common.contraction_tiles import Cut, choose_tiles, sizes_of
from mlirtri.lowering.schedule.cpu.matmul import nest, panels, rule
from mlirtri.lowering.toolchain.tvm_passes import prim_funcs


def plain(emit, a, b):
    return emit(op.matmul(a, b))


def transposed(emit, a, b):
    order = [*range(len(b.ty.shape) - 2), len(b.ty.shape) - 1, len(b.ty.shape) - 2]
    return emit(op.matmul(a, emit(op.permute_dims(b, order))))


def check(make, expected, *specs, threads=1):
    """Compile for so many threads, run on random numbers and compare with `expected`, computed in fp64 by torch.

    Gives what was scheduled, as text.
    """
    specs = [spec if isinstance(spec[-1], str) else (spec, "float32") for spec in specs]
    inputs = [random(*shape, dtype=getattr(torch, dtype)) for shape, dtype in specs]
    context = context_for(Target("cpu", "here", threads))
    mod = module(make, *specs)
    scheduled = tir_to_scheduled.lower(tir_of(mod, context), context)
    assert rules_of(scheduled) == ["Matmul"]
    assert all("mlirtri.schedule_failures" not in function.attrs for _, function in prim_funcs(scheduled))
    made = run(mod, *inputs, context=context)
    wide = [each.double() if each.is_floating_point() else each for each in inputs]
    reduced = specs[0][0][-1]
    torch.testing.assert_close(made, expected(*wide).to(made.dtype), **within(str(made.dtype)[6:], reduced))
    return scheduled.script()


@pytest.mark.parametrize("size", range(1, 70))
@pytest.mark.parametrize("most", [1, 4, 6])
def test_a_cut_leaves_nothing_over(size, most):
    cut = Cut(size, -(-size // most))
    assert sum(tile * count for tile, count in sizes_of(cut)) == size
    assert all(0 < tile <= most for tile, _ in sizes_of(cut))
    assert max(tile for tile, _ in sizes_of(cut)) - min(tile for tile, _ in sizes_of(cut)) <= 1


@pytest.mark.parametrize("registers", [16, 32])
@pytest.mark.parametrize(("rows", "vectors"), [(1, 1), (37, 32), (1000, 63), (4096, 256), (3, 1)])
def test_tiles_fit_into_the_registers(rows, vectors, registers):
    tiles = choose_tiles(rows, vectors, registers)
    assert tiles.rows.size * tiles.vectors.size + tiles.vectors.size + 1 <= registers


SIZES = [(4, 16, 4), (13, 31, 70), (65, 130, 33), (7, 3, 9), (30, 47, 2100), (100, 65, 17)]


@pytest.mark.parametrize(("sizes", "dtype"), in_turn(SIZES, ["float32", "float64"]))
def test_products_in_every_layout(sizes, dtype):
    rows, columns, reduced = sizes
    check(plain, torch.matmul, ((rows, reduced), dtype), ((reduced, columns), dtype))
    check(transposed, lambda a, b: a @ b.T, ((rows, reduced), dtype), ((columns, reduced), dtype))


@pytest.mark.parametrize(
    ("left", "right"),
    [((40, 37), (37,)), ((37,), (37, 45)), ((1, 37), (37, 700)), ((3, 37), (37, 33)), ((5, 1, 37), (5, 37, 45))],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_products_with_vectors_and_few_rows(left, right, dtype):
    check(plain, torch.matmul, (left, dtype), (right, dtype))


@pytest.mark.parametrize(("rows", "reduced"), in_turn([1, 2, 5, 8, 13], [16, 37, 64]))
def test_few_rows_read_both_operands_along_the_sum(rows, reduced):
    check(transposed, lambda a, b: a @ b.T, (rows, reduced), (45, reduced))


@pytest.fixture
def avx512(monkeypatch):
    """Tile sizes for 32 vector registers of 512 bits, whatever this CPU has: LLVM splits wider vectors."""
    monkeypatch.setattr(targets, "vector_bits", lambda: 512)
    monkeypatch.setattr(nest, "vector_registers", lambda: 32)


@pytest.mark.parametrize(("columns", "reduced", "dtype"), [(3, 64, "float32"), (7, 101, "float32"), (2, 33, "float64")])
def test_few_columns_are_sums_along_lanes(columns, reduced, dtype, avx512):
    scheduled = check(plain, torch.matmul, ((50, reduced), dtype), ((reduced, columns), dtype), threads=2)
    assert "dots0" in scheduled
    scheduled = check(transposed, lambda a, b: a @ b.T, ((50, reduced), dtype), ((columns, reduced), dtype))
    assert "dots0" in scheduled
    assert "right = T.alloc_buffer" not in scheduled


def test_short_sums_read_a_copy_that_was_turned_round():
    scheduled = check(transposed, lambda a, b: a @ b.mT, (4, 20, 33), (4, 37, 33))
    assert "dots0" not in scheduled
    assert "T.Shuffle" in scheduled
    # With many rows, a copy element by element costs little, and compiles sooner.
    assert "T.Shuffle" not in check(transposed, lambda a, b: a @ b.T, (300, 33), (37, 33))


@pytest.mark.parametrize("sums", ["bsk,khd->bshd", "bshk,bthk->bhst", "kbs,khd->bhsd", "bsmn,mnh->bsh", "ijk,lk->ijl"])
def test_contractions_of_any_axes(sums):
    sizes = {"b": 2, "s": 9, "h": 3, "k": 20, "d": 16, "t": 17, "m": 4, "n": 5, "i": 3, "j": 6, "l": 33}
    operands, _ = sums.split("->")
    shapes = [tuple(sizes[letter] for letter in operand) for operand in operands.split(",")]
    check(lambda emit, a, b: emit(op.einsum((a, b), sums)), lambda a, b: torch.einsum(sums, a, b), *shapes)


@pytest.mark.parametrize("shape", [(37, 51, 29), (16, 16, 64), (5, 40, 130)])
@pytest.mark.parametrize(("dtype", "wide"), [("bfloat16", "float32"), ("float16", "float32"), ("int8", "int32")])
def test_narrow_operands(shape, dtype, wide):
    rows, columns, reduced = shape
    if dtype == "int8":
        generator = torch.Generator().manual_seed(reduced)
        left, right = (
            torch.randint(-128, 128, size, dtype=torch.int8, generator=generator)
            for size in ((rows, reduced), (reduced, columns))
        )
    else:
        left, right = (
            random(rows, reduced).to(getattr(torch, dtype)),
            random(reduced, columns).to(getattr(torch, dtype)),
        )
    mod = module(
        lambda emit, a, b: emit(op.matmul(a, b, out_dtype=wide)), ((rows, reduced), dtype), ((reduced, columns), dtype)
    )
    kind = torch.int64 if dtype == "int8" else torch.float64
    expected = (left.to(kind) @ right.to(kind)).to(getattr(torch, wide))
    torch.testing.assert_close(run(mod, left, right), expected, **within(wide, reduced))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_narrow_sums_wrap(dtype):
    kind = getattr(torch, dtype)
    limits = torch.iinfo(kind)
    generator = torch.Generator().manual_seed(5)
    left, right = (
        torch.randint(limits.min, limits.max + 1, size, generator=generator).to(kind) for size in ((9, 50), (50, 40))
    )
    made = run(module(plain, ((9, 50), dtype), ((50, 40), dtype)), left, right)
    assert torch.equal(made, (left.long() @ right.long()).to(kind))


@pytest.mark.parametrize("rows", [1, 9, 50])
@pytest.mark.parametrize("columns", [40, 64])
def test_what_follows_is_done_on_the_tile(rows, columns):
    def make(emit, a, b, bias, scale, other):
        made = emit(op.multiply(emit(op.add(emit(op.matmul(a, b)), bias)), scale))
        return emit(op.add(emit(op.nn.gelu(made)), other))

    def expected(a, b, bias, scale, other):
        return torch.nn.functional.gelu((a @ b + bias) * scale) + other

    check(make, expected, (rows, 30), (30, columns), (columns,), (rows, 1), (rows, columns))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_share_tiles(threads):
    check(plain, torch.matmul, (190, 300), (300, 270), threads=threads)
    check(plain, torch.matmul, (600,), (600, 1100), threads=threads)


def test_threads_have_even_shares_of_the_tiles(avx512):
    # 43 rows of tiles, which chunks of six would leave one of.
    scheduled = check(plain, torch.matmul, (256, 256), (256, 256), threads=2)
    assert "* T.int64(43) // T.int64(8)" in scheduled


def test_nan_and_infinity_stay_in_their_rows_and_columns():
    a, b = random(20, 33), random(33, 50)
    a[3, 5], b[7, 11] = float("nan"), float("inf")
    made = run(module(plain, (20, 33), (33, 50)), a, b)
    assert made[3].isnan().all()
    assert not made[:3, :11].isnan().any()
    assert torch.equal(made.isnan(), (a @ b).isnan())
    assert torch.equal(made.isinf(), (a @ b).isinf())


def test_registers_of_other_cpus_give_the_same(monkeypatch):
    a, b = random(45, 40), random(40, 70)
    for bits in (128, 256):
        monkeypatch.setattr(targets, "vector_bits", lambda bits=bits: bits)
        torch.testing.assert_close(run(module(plain, (45, 40), (40, 70)), a, b), a @ b, **within("float32", 40))
        made = run(module(transposed, (45, 40), (70, 40)), a, b.T.contiguous())
        torch.testing.assert_close(made, a @ b, **within("float32", 40))
        made = run(module(plain, (45, 40), (40, 3)), a, b[:, :3].contiguous())
        torch.testing.assert_close(made, a @ b[:, :3], **within("float32", 40))


def test_a_long_sum_is_cut_into_blocks():
    a, b = random(20, 20000), random(20000, 40)
    mod = module(
        lambda emit, x, y, z: emit(op.nn.relu(emit(op.add(plain(emit, x, y), z)))), (20, 20000), (20000, 40), (40,)
    )
    c = random(40)
    expected = torch.relu(a.double() @ b.double() + c)
    torch.testing.assert_close(run(mod, a, b, c), expected.float(), **within("float32", 20000))
    assert "block" in tir_to_scheduled.lower(tir_of(mod), context_for()).script()


@pytest.mark.parametrize(
    ("batch", "sizes", "threads"),
    [((), (60, 70, 300), 1), ((3,), (50, 33, 701), 2), ((), (130, 200, 300), 2)],
)
def test_columns_are_copied_before_the_tiles_that_read_them(batch, sizes, threads, monkeypatch):
    for each in (rule, nest, panels):
        monkeypatch.setattr(each, "cache_bytes", lambda: (0, 4096, 1 << 16, 1 << 20))
    rows, columns, reduced = sizes
    left = (*batch, rows, reduced)
    whole = check(plain, torch.matmul, left, (*batch, reduced, columns), threads=threads)
    turned = check(transposed, lambda a, b: a @ b.mT, left, (*batch, columns, reduced), threads=threads)
    assert all("panel = " in each for each in (whole, turned))
    assert "Shuffle" in turned


def test_rows_far_apart_are_fetched_before_they_are_loaded():
    fetching, near = (check(plain, torch.matmul, (30, 64), (64, columns)) for columns in (300, 200))
    assert ["llvm.prefetch" in each for each in (fetching, near)] == [True, False]


@pytest.mark.parametrize("pipeline", ["linalg", "relax"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_with_an_epilogue(pipeline, dtype):
    a, b, c = (random(*shape).to(dtype) for shape in ((9, 20), (20, 40), (40,)))
    made = _halves.compile(a, b, c, pipeline=pipeline)(a, b, c)
    expected = torch.relu((a.double() @ b.double()).to(dtype).double() + c.double())
    torch.testing.assert_close(made.double(), expected, rtol=2e-2, atol=2e-2)


@mt.jit
def _halves(a, b, c):
    return torch.relu(a @ b + c)


@pytest.mark.parametrize(("rows", "columns", "reduced"), [(37, 300, 500), (16, 257, 800)])
def test_a_transposed_left_operand_is_copied_in_vectors(rows, columns, reduced):
    def make(emit, a, b):
        return emit(op.matmul(emit(op.permute_dims(a, [1, 0])), b))

    a, b = random(reduced, rows), random(reduced, columns)
    mod = module(make, (reduced, rows), (reduced, columns))
    torch.testing.assert_close(run(mod, a, b), a.T @ b, **within("float32", reduced))
    assert "left" in tir_to_scheduled.lower(tir_of(mod), context_for()).script()


def _of_few_columns(x, w):
    return torch.relu(x @ w) + 1


def _of_transposed(x, w):
    made = torch.nn.functional.linear(x, w.T)
    return made, torch.tanh(made) + w[0]


@pytest.mark.parametrize(("function", "threads", "inner"), [(_of_transposed, 1, ()), (_of_few_columns, 2, (3,))])
def test_rows_of_run_time_sizes_are_tiled(function, threads, inner, monkeypatch):
    class Product(torch.nn.Module):
        def forward(self, x, w):
            return function(x, w)

    monkeypatch.setenv("MLIRTRI_NUM_THREADS", str(threads))
    rows = torch.export.Dim("rows", min=2)
    program = mt.from_torch(Product(), (random(10, *inner, 33), random(33, 50)), dynamic_shapes=({0: rows}, {}))
    kernel = program.compile()
    assert "for task" in kernel.ir["scheduled"]
    for count in (2, 3, 5, 6, 7, 9, 16, 33, 50, 101):
        x, w = random(count, *inner, 33), random(33, 50)
        torch.testing.assert_close(kernel(x, w), function(x, w), **within("float32", 33))


OPEN_SIZES = [(0, 3, 4), (3, 0, 4), (3, 4, 0), (1, 1, 1), (2, 17, 5), (16, 33, 70), (29, 100, 40), (9, 20, 5000)]


@pytest.mark.parametrize(("dtype", "threads"), [("f32", 1), ("bf16", 2)])
def test_any_size_of_run_time_is_tiled(dtype, threads, monkeypatch):
    """Rows, columns and sums that end inside of tiles, vectors and blocks, and none of each."""
    monkeypatch.setenv("MLIRTRI_NUM_THREADS", str(threads))
    kernel = mt.from_mlir(_OPEN_PRODUCT.replace("TYPE", dtype)).compile()
    assert "row_chunks" in kernel.ir["scheduled"]
    for rows, columns, reduced in OPEN_SIZES:
        a, b, c = random(rows, reduced), random(reduced, columns), random(columns)
        a, b = (each.to(torch.bfloat16 if dtype == "bf16" else torch.float32) for each in (a, b))
        expected = torch.tanh(a.float() @ b.float() + c)
        torch.testing.assert_close(kernel(a, b, c), expected, **within("float32", max(reduced, 1)))


@pytest.mark.parametrize("dtype", [torch.int8, pytest.param(torch.int32, marks=pytest.mark.slow)])
def test_integers_of_any_size_of_run_time_are_tiled(dtype):
    """Sums wrap as those of known sizes do."""

    class Product(torch.nn.Module):
        def forward(self, x, y):
            return torch._int_mm(x, y) if dtype is torch.int8 else x @ y

    def numbers(*shape):
        return torch.randint(torch.iinfo(dtype).min, torch.iinfo(dtype).max, shape, dtype=dtype)

    open_axes = ({axis: torch.export.Dim.DYNAMIC for axis in (0, 1)},) * 2
    kernel = mt.from_torch(Product(), (numbers(40, 48), numbers(48, 24)), dynamic_shapes=open_axes).compile()
    assert "row_chunks" in kernel.ir["scheduled"]
    for rows, columns, reduced in [(2, 17, 5), (16, 33, 70), (29, 100, 40), (9, 20, 5000)]:
        a, b = numbers(rows, reduced), numbers(reduced, columns)
        assert torch.equal(kernel(a, b), (a.long() @ b.long()).int())


@pytest.mark.parametrize("threads", [1, 2])
def test_one_row_on_columns_of_run_time_reads_them_in_place(threads, monkeypatch):
    """One step of attention on a cache of open length: neither a transposed nor a scaled copy of the keys."""

    class Step(torch.nn.Module):
        def forward(self, query, keys, values):
            return torch.nn.functional.scaled_dot_product_attention(query, keys, values)

    monkeypatch.setenv("MLIRTRI_NUM_THREADS", str(threads))
    query, length = random(1, 3, 1, 20), torch.export.Dim.DYNAMIC
    keys, values = random(1, 3, 40, 20), random(1, 3, 40, 20)
    program = mt.from_torch(Step(), (query, keys, values), dynamic_shapes=({}, {2: length}, {2: length}))
    kernel = program.compile()
    assert "dots0" in kernel.ir["scheduled"]
    assert "permute" not in kernel.ir["scheduled"]
    for count in (2, 7, 8, 9, 16, 17, 40, 2000):
        keys, values = random(1, 3, count, 20), random(1, 3, count, 20)
        expected = Step()(query, keys, values)
        torch.testing.assert_close(kernel(query, keys, values), expected, **within("float32", 20))


_OPEN_PRODUCT = """
#all = affine_map<(i, j) -> (i, j)>
#column = affine_map<(i, j) -> (j)>
func.func @product(%x: tensor<?x?xTYPE>, %y: tensor<?x?xTYPE>, %z: tensor<?xf32>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %m = tensor.dim %x, %c0 : tensor<?x?xTYPE>
  %n = tensor.dim %y, %c1 : tensor<?x?xTYPE>
  %empty = tensor.empty(%m, %n) : tensor<?x?xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x?xf32>) -> tensor<?x?xf32>
  %r = linalg.matmul ins(%x, %y : tensor<?x?xTYPE>, tensor<?x?xTYPE>)
      outs(%start : tensor<?x?xf32>) -> tensor<?x?xf32>
  %s = linalg.generic {indexing_maps = [#all, #column, #all], iterator_types = ["parallel", "parallel"]}
      ins(%r, %z : tensor<?x?xf32>, tensor<?xf32>) outs(%empty : tensor<?x?xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %t = arith.addf %p, %q : f32
    %u = math.tanh %t : f32
    linalg.yield %u : f32
  } -> tensor<?x?xf32>
  return %s : tensor<?x?xf32>
}
"""


@mt.jit
def _biased(a, b, c):
    return torch.matmul(a, b) + c


@pytest.mark.parametrize(
    ("left", "right"),
    [((1, 70), (70, 300)), ((70, 40), (40, 1)), ((1, 1, 33), (1, 33, 260)), ((1, 45), (45, 1))],
    ids=str,
)
def test_axes_of_one_leave_operands_where_they_are(left, right):
    a, b, c = random(*left), random(*right), random(right[-1])
    kernel = _biased.compile(a, b, c)
    torch.testing.assert_close(kernel(a, b, c), a @ b + c, **within("float32", left[-1]))
    scheduled = kernel.ir["scheduled"]
    # One function, and so no launch of a reshape; it copies no operand.
    assert scheduled.count("T.prim_func") == 1
    assert "right = T.alloc_buffer" not in scheduled


@mt.jit
def _corner(a, b, c, corner):
    corner[:] = (torch.matmul(a, b) + c)[:5, :3]


def test_a_slice_of_a_product_in_tiles_of_two_heights(avx512):
    # Rows in tiles of 11 and 10: a condition, under which TVM cannot shrink what the slice reads.
    a, b, c, corner = random(32, 8), random(8, 16), random(32, 16), random(5, 3)
    _corner(a, b, c, corner)
    torch.testing.assert_close(corner, (a @ b + c)[:5, :3], **within("float32", 8))
