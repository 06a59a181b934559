"""The page "Python and NumPy in kernels", `docs/python.md`: what a kernel may say, and which test shows it.

    python -m mlirtri.pages.python_page           # print the page
    python -m mlirtri.pages.python_page --write   # write it into the checkout

A test looks for every named test, and keeps the page and the table equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from mlirtri.pages.operations_page import publish

PAGE = Path(__file__).parent.parent.parent / "docs" / "python.md"


@dataclass(frozen=True)
class Row:
    what: str
    how: str
    """What a kernel makes of it, or for a refusal what to write instead."""
    test: str
    """``file::name`` under tests/; the name is that of a test, of a program, or of a row of a table in it."""
    refused: bool = False


FRONTEND = "lowering/frontend"
PLAIN = "lowering/frontend/test_plain_statements.py"
FLOW, LOOPS, EXITS, VIEWS = (
    f"{FRONTEND}/test_{name}.py" for name in ("control_flow", "loops", "loop_exits", "updates")
)
MACROS, ALGEBRA = f"{FRONTEND}/test_macros.py", f"{FRONTEND}/test_linear_algebra.py"
RANDOM = f"{FRONTEND}/test_random_numbers.py"
ERRORS, CALLS = "mlirtri/test_errors.py", "dialect/spellings/test_calls.py"
COMPLEX = "dialect/scalar/test_complex.py"
CONTAINERS = "lowering/frontend/test_containers.py"

AREAS: dict[str, tuple[Row, ...]] = {
    "Branches": (
        Row("`if`, `elif`, `else` at run time", "`scf.if`; names alive afterwards are its results", f"{FLOW}::elif_chain"),
        Row("`if` on what is known now", "folded; the other arm is not looked at",
            f"{FLOW}::compile_time_branch_does_not_type_check_the_other"),
        Row("`x if c else y`", "as `if`", f"{FLOW}::conditional_expression"),
        Row("`and`, `or`, `not`, `a < b < c`", "on numbers, as Python does", f"{FLOW}::short_circuit"),
        Row("`return` in branches and loops", "what follows moves into the other arm", f"{EXITS}::return_in_nested_loops"),
        Row("`match` on values, sequences, names, `int()`…", "a chain of `if`", f"{PLAIN}::test_match_of_elements"),
        Row("`x in values`, `x is y`, `isinstance`, `any`, `all`", "as Python decides; identity of numbers is refused",
            f"{PLAIN}::test_membership_identity_and_lists_as_arrays"),
        Row("an array as a condition", "`.any()`, `.all()`, `where`", f"{ERRORS}::is not one of true and false", refused=True),
        Row("a name assigned on some paths only, and read", "`UnboundLocalError` after the call if another path ran",
            "lowering/frontend/test_maybe_bound.py::test_names_that_some_paths_assign"),
        Row("a function or text assigned in one arm only, and read", "assign it before, or in both", f"{ERRORS}::one arm of this", True),
        Row("arms that disagree in shape or dtype", "one shape and dtype in both", f"{ERRORS}::would be one of", True),
    ),
    "Loops": (
        Row("`for i in range(…)`", "`scf.for`; bounds and steps may be known at run time", f"{LOOPS}::argument_bounds"),
        Row("negative steps", "counted forwards", f"{LOOPS}::negative_steps"),
        Row("bounds from outer indices, from data", "", f"{LOOPS}::bounds_from_data"),
        Row("`for row in array`, `enumerate`, `zip`, `reversed`", "along the first axis", f"{LOOPS}::enumerate_zip_reversed"),
        Row("`np.ndindex(…)`, `np.ndenumerate(a)`", "one loop over all positions", f"{LOOPS}::positions_of_all_axes"),
        Row("`for` over tuples, lists, strings; `mt.static_range`", "unrolled",
            f"{LOOPS}::static_range_gives_static_shapes"),
        Row("`mt.prange`, `mt.ndrange`, `mt.serial`", "declared parallel, or refused; in order",
            "lowering/dependence/test_parallel_loops.py::test_results_are_those_of_the_loops_in_order"),
        Row("`if mt.static(flag)`, `for k in mt.static(range(3))`", "known at compile time, or refused; unrolled",
            "end_to_end/test_element_examples.py::test_static_refuses_values_of_run_time"),
        Row("`mt.atomic_add(h[i], x)`, `_min`, `_max`, `_and`, `_or`, `_xor`, `_cas`", "the element before; see Parallel loops",
            "lowering/frontend/test_atomics.py::test_updates"),
        Row("few iterations", "innermost loops of up to `jit(unroll=4)` iterations are unrolled", f"{LOOPS}::test_unrolling_is_an_option"),
        Row("`while`, `break`, `continue`", "`scf.while` where the number of iterations is not known", f"{EXITS}::break_and_continue"),
        Row("names whose type grows (`s = 0; s += x[i]`)", "the type that the first iteration gives", f"{LOOPS}::types_grow_in_loops"),
        Row("arrays whose length changes (`z = z[m]`)", "kept at their largest length, with a count",
            f"{LOOPS}::arrays_that_shrink"),
        Row("a name first assigned in a loop, read after it", "`UnboundLocalError` after the call if there was no iteration",
            "lowering/frontend/test_maybe_bound.py::test_names_that_some_paths_assign"),
        Row("`sum`, `any`, `all`, `max`, `min` of a generator, `map`, `filter`", "a loop where a length or condition is "
            "known at run time only", "lowering/frontend/test_generators.py::of_elements"),
        Row("comprehensions of lists, dicts and sets", "over what is known at compile time", f"{LOOPS}::comprehensions"),
        Row("`else` on a loop", "runs unless the loop ends by `break`", f"{EXITS}::else_of_loops"),
        Row("`while True` without a way out", "", f"{ERRORS}::never ends", refused=True),
        Row("a name that changes its shape in a loop", "the shape before the loop", f"{ERRORS}::before this loop", True),
    ),
    "Functions": (
        Row("plain functions of the file, defaults, keywords", "inlined", f"{FLOW}::plain_helpers"),
        Row("functions and lambdas in the kernel", "inlined, and see its names", f"{FLOW}::closures"),
        Row("`nonlocal` in a function of the kernel", "assigns the name of the function around it, which calls it",
            f"{FLOW}::functions_assign_names_around_them"),
        Row("`@mt.macro`, parameters annotated `mt.Ref`", "inlined; assigning changes the caller's variable or element",
            f"{MACROS}::references"),
        Row("named tuples, `State(x, v)`, `s._replace(x=…)`", "made in the kernel, carried by loops, returned",
            f"{PLAIN}::test_named_tuples_are_made"),
        Row("functions as arguments", "compile-time values", f"{MACROS}::functions_as_arguments"),
        Row("recursion", "as far as compile-time values end it, `jit(inline_depth=500)` deep", f"{MACROS}::recursion"),
        Row("`f(*x)`, `(*x, y)`, `a, *b = x`", "where the number of elements is known", f"{LOOPS}::star_expressions"),
        Row("parameters `*args`", "tuples", f"{PLAIN}::test_parameters_that_take_the_rest"),
        Row("`f(**options)`, parameters `**options`", "a dict",
            f"{CONTAINERS}::test_they_are_pythons"),
        Row("lists and dicts", "made, read, changed, passed on and returned as Python's; lengths and keys are known at "
            "compile time", f"{CONTAINERS}::test_they_are_pythons"),
        Row("`(1, 0, -1)[k]`, `rows[k]` with k of run time", "an element of a table; elements are of one type and shape",
            "lowering/frontend/test_lists.py::test_positions_of_run_time"),
        Row("keys of run time, a list that grows in a loop of run time, changes of a list from outside",
            "fill an array, copy the list", f"{CONTAINERS}::test_what_is_not_known_is_refused", refused=True),
        Row("`(a, b) < (c, d)`, `[a] == [b]`", "in order: the first elements that differ decide",
            f"{CONTAINERS}::test_they_are_pythons"),
        Row("`raise ValueError(…)` and others of Python's; `LinAlgError`", "after the call, if it is reached; while "
            "compiling, if each call reaches it", f"{FRONTEND}/test_raise.py::test_a_call_raises_what_python_raises"),
        Row("`try`, `with`, `class`, `import`, `yield`, `global`", "", f"{ERRORS}::cannot contain `try`", refused=True),
        Row("``with np.errstate(…)``", "kernels report no floating-point errors; `raise` is refused",
            f"{PLAIN}::test_errors_of_numpy_are_ignored"),
        Row("`assert`, `mt.device_print`", "with `jit(debug=True)`; else they do nothing",
            f"{VIEWS}::test_assert_and_device_print"),
    ),
    "Indexing": (
        Row("elements, slices, steps, `None`, `...`", "views: they share memory as NumPy's do", f"{VIEWS}::view sees writes"),
        Row("bounds and positions of run time", "negative ones count from the end; slices end with the array", f"{LOOPS}::bounds_from_data"),
        Row("`a[mask]`, `a[mask] = v`", "", f"{VIEWS}::mask array"),
        Row("`a[i]`, `a[i] = v` with arrays of integers", "the last write to an element wins", f"{VIEWS}::scatter, the last one wins"),
        Row("`a[i] += v` with arrays of integers", "elements named twice count once", f"{VIEWS}::scatter update counts once"),
        Row("a known position outside of the array, in some iteration of a loop of constant bounds, too", "`IndexError` at compile time", f"{ERRORS}::out of bounds", refused=True),
        Row("an unknown position outside of the array", "`IndexError` after the call; on CUDA with `debug` only",
            f"{FRONTEND}/test_index_checks.py::test_a_position_outside_raises_where_python_does"),
        Row("`a[mask, 1]`, `a[:, mask] = v`: a mask beside integers and slices", "", f"{VIEWS}::mask after a slice"),
        Row("`a[mask, i]`, `a[None, i]`, `a[i[:, None], None, j]`: masks and new axes beside arrays of positions",
            "of one shape at run time", f"{VIEWS}::masks and new axes beside positions"),
    ),
    "Updates": (
        Row("`a[…] = v`, `a[…] += v`, `a += v`, `out=`", "in place; the caller's argument is written", f"{VIEWS}::update view"),
        Row("`a[1:] = a[:-1]`, `a[:] = a.T`", "as if the right side was copied first", f"{VIEWS}::overlap forwards"),
        Row("strided arguments", "copied in and out", f"{VIEWS}::test_strided_arguments_are_written"),
        Row("`a = a + 1` of an argument", "a new array; the caller's is as it was",
            f"{LOOPS}::rebinding_an_argument_does_not_write_it"),
        Row("rank-0 tensors of torch, `np.zeros(())`", "arrays like all others; NumPy's scalars are immutable",
            f"{FRONTEND}/test_aliases.py::test_what_is_written_is_seen_through_every_name"),
        Row("written arguments that share memory", "pass a copy", f"{VIEWS}::test_arguments_that_overlap_are_refused", True),
        Row("writing `a.ravel()` or `a.reshape(…)` of a strided argument", "NumPy copies there: pass it contiguous",
            f"{VIEWS}::test_views_in_another_shape_need_arguments_in_order", refused=True),
        Row("`y = a.T + 1; y.reshape(-1)[0] = 1`", "a view or a copy as in the library, whose new arrays lie in memory as their operands",
            f"{FRONTEND}/test_views.py::test_reshapes_of_new_arrays_follow_the_librarys_order_in_memory"),
        Row("the same after `einsum`, `cumsum(a.T)` and others whose order is not known", "write into a copy",
            f"{FRONTEND}/test_views.py::test_a_reshape_of_an_array_of_unknown_order_is_not_written", refused=True),
        Row("`return a`, `return a[1:]`", "the values; the caller gets a new array", f"{FLOW}::names_of_views_after_a_branch"),
        Row("read-only and expanded arguments that are written", "pass a copy",
            f"{VIEWS}::test_arguments_that_cannot_be_written_are_refused", refused=True),
        Row("writing an array that may be another's, depending on what ran", "write into a copy",
            f"{ERRORS}::depending on what ran before", refused=True),
    ),
    "NumPy": (
        Row("functions, methods, ufunc methods", "see the [operations](operations.md)", f"{CALLS}::test_compiled_calls"),
        Row("`np.linalg.solve`, `inv`, `det`, `cholesky`", "written in the kernel language; `LinAlgError` after the call",
            f"{ALGEBRA}::test_linear_algebra"),
        Row("`np.linalg.qr`, `eigh`, `svd`, `pinv`, `lstsq`, `matrix_rank`, `cond`, `slogdet`…",
            "of one matrix or of stacks; vectors are the library's up to a factor of modulus 1", f"{ALGEBRA}::test_factors"),
        Row("`np.linalg.eig`, `eigvals`", "**refused**; `eigh` for Hermitian matrices", f"{ALGEBRA}::test_what_is_refused"),
        Row("`np.fft`, `torch.fft`", "transforms of axes of static length, in float64 and rounded once",
            "dialect/spellings/test_fourier_calls.py::test_same_call_same_result"),
        Row("complex64, complex128", "arithmetic and elementary functions", f"{COMPLEX}::complex128"),
        Row("`a[mask]` returned, its `len`", "the length is that of the run", f"{FLOW}::lengths_differ_by_branch"),
        Row("`rng = np.random.default_rng(seed)`, then `rng.random`, `uniform`, `normal`, `lognormal`, `exponential`, "
            "`integers`, `choice`, `shuffle`, `permutation`…",
            "NumPy's numbers for that seed; the seed may be an argument", f"{RANDOM}::test_the_numbers_are_numpys"),
        Row("`np.random.rand` and others without a generator", "make a generator in the kernel", f"{ERRORS}::random",
            refused=True),
        Row("`np.unique`, `np.nonzero`, `np.argwhere`, `np.where(m)`", "the length is that of the run; of static shapes",
            f"{FRONTEND}/test_selection.py::test_selected_elements_and_sums_at_indices"),
        Row("`np.gcd`, `np.lcm`, `np.ldexp`, `np.maximum.at`…, `np.unique` with counts, indices, inverse",
            "written in the kernel language", f"{FRONTEND}/test_library_functions.py::test_library_functions"),
        Row("`np.union1d`, `np.intersect1d`, `np.setdiff1d`, `np.trim_zeros`, `np.apply_along_axis`…",
            "written in the kernel language", f"{FRONTEND}/test_library_functions.py::test_library_functions"),
        Row("tuples, lists, dicts of arrays as arguments, nested; `*rest` and `**rest` of the kernel",
            "each element is an argument; lengths and keys are known at compile time",
            "mlirtri/kernels/test_container_arguments.py::test_they_are_taken_apart_and_given_back"),
        Row("lists of numbers as arguments", "values known at compile time, which the kernel does not change",
            f"{FRONTEND}/test_lists.py::test_a_list_argument_is_no_tuple"),
        Row("`min(a[0], 3)` of numbers of two types", "Python returns one of them: write `np.minimum`, or `int(a[0])`",
            f"{FRONTEND}/test_lists.py::test_the_smaller_of_two_types_is_refused", refused=True),
    ),
}  # fmt: skip

_HEAD = """\
<!-- Generated by `python -m mlirtri.pages.python_page --write`; a test keeps the page and its table equal. -->

# Python and NumPy in kernels

A kernel is plain Python over arrays, read and compiled as a whole. This is what it may say. Everything else is refused
with the line, a caret, and what to write instead. Python integers of run time are int64: they wrap around.
"""


def page() -> str:
    parts = [_HEAD]
    for area, rows in AREAS.items():
        parts.append(f"\n## {area}\n\n| | | shown by |\n|---|---|---|\n")
        parts += [_line(row) for row in rows]
    return "".join(parts)


def _line(row: Row) -> str:
    file, _, name = row.test.partition("::")
    text = f"**refused**{'; ' * bool(row.how)}{row.how}" if row.refused else row.how
    return f"| {row.what} | {text} | [{name}](../tests/{file}) |\n"


@click.command()
@click.option("--write", is_flag=True, help="Write the page into the checkout.")
def main(write: bool) -> None:
    publish(page(), PAGE, write)


if __name__ == "__main__":
    main()
