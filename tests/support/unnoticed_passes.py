"""Passes that no lit test can be expected to miss, each with its reason; `dropped_passes` reads this table.

What a program computes is the same without them. Several leave work to a later pass of their list, which finds the
same; they are there so that the passes between meet fewer operations. An entry is taken out when a test notices it.
"""

from __future__ import annotations

_LATER = "a later pass of its list does the same; the passes between meet fewer operations"
_ROUNDS = "opens fusions in large models: the rounds of fusion after it find them in none of the small tests"
_SIZES = "sizes come out as the same arithmetic, in more steps: less to look at for the passes after it"
_SPACES = "the attribute is of tensors, and nothing after it reads it; merging of operations is all that it may hinder"

UNNOTICED: dict[tuple[str, str, str], str] = {
    ("asserts", "cse", ""): "an assertion that is made twice is checked twice",
    ("bufferized_to_gpu", "cse", ""): _LATER,
    ("bufferized_to_gpu", "canonicalize", ""): _LATER,
    ("bufferized_to_gpu", "loop-invariant-code-motion", ""): "the compiler of SPIR-V in the driver does it again",
    ("bufferized_to_gpu", "lower-affine", ""): "a later lower-affine does the same",
    ("bufferized_to_llvmdialect", "locations-of-calls", ""): (
        "calls have locations in all tests; LLVM refuses one without, in a function that it may inline"
    ),
    ("bufferized_to_loops", "canonicalize", ""): _LATER,
    ("bufferized_to_loops", "cse", ""): _LATER,
    ("bufferized_to_loops", "loop-invariant-code-motion", ""): "LLVM does it again, and so does the C compiler",
    ("bufferized_to_loops", "hide-memory-spaces", ""): _SPACES,
    ("bufferized_to_poly", "canonicalize", ""): _LATER,
    ("bufferized_to_poly", "fold-memref-alias-ops", ""): "no kernel that was tried has views left there",
    ("control_flow", "canonicalize", ""): _LATER,
    ("control_flow", "convert-elementwise-to-linalg", ""): _LATER,
    ("control_flow", "cse", ""): _LATER,
    ("fused_to_bufferized", "hide-memory-spaces", ""): _SPACES,
    ("infer_size_program", "canonicalize", ""): _SIZES,
    ("infer_size_program", "cse", ""): _SIZES,
    ("infer_size_program", "int-range-optimizations", ""): _SIZES,
    ("infer_size_program", "resolve-ranked-shaped-type-result-dims", ""): _SIZES,
    ("infer_size_program", "resolve-shaped-type-result-dims", ""): _SIZES,
    ("infer_sizes", "canonicalize", ""): _SIZES,
    ("infer_sizes", "cse", ""): _SIZES,
    ("infer_sizes", "resolve-ranked-shaped-type-result-dims", ""): _SIZES,
    ("inline_entry", "lift-cf-to-scf", ""): "branches of inlined functions are lifted after inlining, too",
    ("inline_entry", "symbol-dce", "functions that were inlined everywhere are dead"): _LATER,
    ("linalg_to_fused", "canonicalize", ""): _ROUNDS,
    ("linalg_to_fused", "cse", ""): _ROUNDS,
    ("linalg_to_fused", "linalg-fuse-elementwise-ops", "takes the fusions that merging operands opened"): _ROUNDS,
    ("linalg_to_fused", "linalg-fold-unit-extent-dims", ""): _ROUNDS,
    ("linalg_to_fused", "hide-memory-spaces", ""): _SPACES,
    (
        "tir_to_scheduled",
        "OneThread",
        "cuda",
    ): "takes every function that Dlight's Fallback raises for, so that none is refused",
    (
        "tir_to_scheduled",
        "Fallback",
        "cpu",
    ): "takes every function that the rules before it raise for, so that none is refused",
    ("tir_to_scheduled", "PlainReduction", "cpu"): "takes convolutions and reductions that all others refuse",
}
"""By lowering, pass, and why it runs there; the last is empty for all passes of the name in a lowering."""


def reason_of(lowering: str, name: str, why: str) -> str | None:
    """Return why no lit test misses a pass; None for one that is not in the table."""
    return UNNOTICED.get((lowering, name, why)) or UNNOTICED.get((lowering, name, ""))
