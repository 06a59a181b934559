"""Loops, updates and run-time sizes in the `mlir` pipeline: what is written in place, and what the stages say of it."""

from __future__ import annotations

import re

import imperative_programs as programs
import loop_carried_programs as carried
import pytest
from imperative_stages import LOWERINGS, bufferized, loops, lower_to

from mlirtri.dialect.bindings.mlir import ir, operations_named, print_complete, print_module
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.core.target import as_target
from mlirtri.lowering.mlir_backend.llvm import bufferized_to_llvmdialect
from mlirtri.lowering.mlir_backend.loops import bufferized_to_loops
from mlirtri.lowering.mlir_common.imperative import is_imperative


@pytest.mark.parametrize("name", ["LU", "SEIDEL", "JACOBI", "TRIANGLE"])
def test_updates_of_arguments_copy_and_allocate_nothing(name):
    text = bufferized(carried.program(name))
    assert "scf.for" in text
    assert not re.search(r"alloc|copy", text)


def test_all_pairs_of_a_graph_copy_a_row_and_a_column_per_step():
    text = bufferized(programs.FLOYD_WARSHALL)
    assert text.count("memref<8xf64>\n") == text.count("memref.alloca") == 2
    assert "outs(%arg0 : memref<8x8xf64>)" in text


def test_rows_that_meet_in_no_column_need_no_temporary():
    text = loops(programs.ROWS)
    assert "alloc" not in text
    assert text.count("scf.parallel") == 1
    # One column further, and each iteration reads what the one before it writes.
    shifted = programs.ROWS.replace("%a[%k, 1] [1, 7]", "%a[%k, 0] [1, 7]")
    assert loops(shifted).count("memref.alloca") == 1


def test_a_row_from_its_neighbours_needs_no_temporary():
    text = loops(programs.COLUMNS)
    assert "alloc" not in text
    assert text.count("scf.parallel") == 1
    # One column further up and down: one temporary for the result, none for what is read.
    shifted = programs.COLUMNS.replace("%a[%h, 1] [1, 6]", "%a[%h, 2] [1, 6]")
    shifted = shifted.replace("%a[%l, 1] [1, 6]", "%a[%l, 0] [1, 6]")
    assert loops(shifted).count("memref.alloca") == 1


def test_overlap_of_both_sides_has_its_temporary():
    assert len(re.findall(r"memref.alloca\(\).*memref<7xf64>", bufferized(programs.OVERLAP))) == 1
    text = bufferized(programs.THRICE)
    assert len(re.findall(r"memref.alloca\(\).*memref<7xf64>", text)) == text.count("memref.alloca") == 3


@pytest.mark.parametrize(("name", "buffers"), [("POWER", 2), ("SWAP", 3), ("GATHER", 1), ("MANDELBROT", 1)])
def test_carried_arrays_stay_in_their_buffers(name, buffers):
    text = carried.program(name)
    assert bufferized(text).count("memref.alloca()") == buffers
    assert "memref<" not in "".join(re.findall(r"iter_args\(.*", bufferized(text)))


def test_while_writes_into_the_result_without_a_copy():
    text = bufferized(carried.WHILE)
    assert not re.search(r"alloc|copy", text)
    assert "memref" not in "".join(re.findall(r"scf.while.*", text))


def test_old_content_is_copied_for_those_who_still_read_it():
    text = bufferized(carried.LATE)
    assert "memref" not in "".join(re.findall(r"scf.(?:while|for|yield|condition) .*", text))
    assert text.count("memref.copy") <= 3  # the last one is the sum's


def test_arrays_that_are_swapped_in_each_iteration_are_copied_once_each():
    loop = bufferized(carried.PING_PONG).partition("scf.for")[2].partition("\n    }\n")[0]
    assert loop.count("memref.copy") == 2
    assert loop.count("memref.alloca") == 1


@pytest.mark.parametrize("busy", [False, True])
def test_results_inserted_later_copy_no_array(busy):
    """Where the array is read before the insertion, upstream's destination passing alone copies all of it."""
    text = bufferized(carried.late_insertion(busy))
    assert not re.search(r"alloca?\(.*memref<16xf64>", text)
    assert text.count("memref.alloca()") == busy


def test_arms_of_a_branch_share_a_buffer():
    for name in ("BRANCHES", "COPY_IN_BRANCH"):
        text = bufferized(carried.program(name))
        assert "arith.select" not in text
        assert "scf.yield" not in text


def test_temporaries_of_loops_are_allocated_once():
    large = carried.POWER.replace("8x", "800x")
    before, _, loop = loops(large).partition("scf.for")
    assert before.count("memref.alloc()") == 1
    assert "alloc()" in loop  # private to the iteration, until it is known that iterations run one after another
    llvm = print_module(lower_to(large, "llvmdialect"))
    assert llvm.count("llvm.call @malloc") == llvm.count("llvm.call @free") == 2


def test_only_loads_stores_and_loops_are_left():
    for name in ("LU", "JACOBI", "FLOYD_WARSHALL", "WHILE", "BRANCHES", "TRIANGLE", "GATHER", "POWER", "MANDELBROT"):
        text = loops(carried.program(name))
        names = set(re.findall(r"(?:^|= |^\s+)((?:linalg|bufferization|tensor|affine|memref|scf)\.\w+)", text, re.M))
        assert names <= {
            "memref.load", "memref.store", "memref.alloc", "memref.alloca", "memref.dealloc",
            "scf.for", "scf.while", "scf.if", "scf.parallel", "scf.yield", "scf.condition", "scf.reduce",
        }, name  # fmt: skip


def test_arrays_of_one_number_are_filled_where_they_are_needed():
    text = bufferized(programs.PARTS)
    assert "memref.global" not in text
    assert text.count("linalg.fill") == 2


def test_innermost_sums_are_carried_as_values():
    text = loops(carried.POWER)
    assert re.search(r"scf.for .* iter_args\(.*\) -> \(f64\)", text)
    assert "fastmath<reassoc,contract>" in text


# What the stage says


def test_straight_line_code_is_not_imperative():
    with ir.Context():
        straight = "func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }"
        assert not is_imperative(ir.Module.parse(straight))
        for text in (programs.LU, programs.OVERLAP, carried.WHILE, programs.BRANCHES):
            assert is_imperative(ir.Module.parse(text))


def test_updates_are_known_in_later_stages():
    module = lower_to(programs.OLD, "bufferized")
    assert list(module.operation.attributes["mlirtri.updates"]) == [0, 1]
    assert "memref<8xf64> {mlirtri.updated_by = 1 : i64}" in print_module(module)


def test_stages_resume_from_their_text():
    text = print_complete(lower_to(programs.TRIANGLE, "bufferized"))
    context = CompileContext("f", as_target("cpu"), stage="llvmdialect")
    with ir.Context():
        resumed = print_module(bufferized_to_llvmdialect.lower(ir.Module.parse(text), context))
    assert resumed == print_module(lower_to(programs.TRIANGLE, "llvmdialect"))


def test_loops_lose_no_operation_to_unknown_locations():
    module = lower_to(programs.JACOBI, "llvmdialect", {**LOWERINGS, "llvmdialect": bufferized_to_loops.lower_to_loops})
    assert operations_named(module, "scf.parallel")
    assert all("unknown" not in str(one.location) for one in operations_named(module, "memref.store"))
