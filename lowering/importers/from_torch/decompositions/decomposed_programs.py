"""Apply the decompositions to an exported program, as `torch.export.ExportedProgram.run_decompositions` does.

torch lists all composite operators at each such call and installs a Python rule for each of them, about 500, though for
nine of ten the rule is the kernel that the operator has anyway. That takes 70 ms, more than the trace of a small
program. Here the list is kept, and only rules that differ from the operator's own kernel are installed.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch._export import utils
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.export import exported_program

from mlirtri.lowering.importers.from_torch.decomposition_rules import Operator, Results, Rule
from mlirtri.lowering.importers.from_torch.decompositions.table import decompositions

Rules = dict[Operator, Rule]
COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd


def decomposed(exported: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return the program in the operators that no decomposition replaces."""
    run = getattr(exported_program, "_decompose_exported_program", None)
    if run is None or not hasattr(utils, "_collect_all_valid_cia_ops"):  # private names: another torch may lack them
        return exported.run_decompositions(decompositions())
    composite, others = _rules(decompositions())
    with unset_fake_temporarily():
        return run(
            exported,
            cia_to_decomp=composite,
            python_decomp_table=others,
            joint_loss_index=None,
            decompose_custom_triton_ops=False,
        )


def _rules(table: Rules) -> tuple[Rules, Rules]:
    """Return the rules that replace a composite operator's own kernel, and those of the other operators.

    A composite operator without a rule stays in the program, as with `run_decompositions`.
    """
    composite = _composite_operators(tuple(torch._C._dispatch_get_registrations_for_dispatch_key(COMPOSITE.name)))
    replaced = {operator: _stay for operator in composite if operator not in table}
    replaced |= {
        operator: rule for operator, rule in table.items() if operator in composite and not _is_own(operator, rule)
    }
    return replaced, {operator: rule for operator, rule in table.items() if operator not in composite}


@functools.lru_cache(maxsize=1)
def _composite_operators(registrations: tuple[str, ...]) -> frozenset[Any]:
    """Return the functional operators that torch decomposes by itself; `registrations` says when to list them anew."""
    return frozenset(utils._collect_all_valid_cia_ops())


def _is_own(operator: Operator, rule: Rule) -> bool:
    """Return whether torch's table names the kernel of the operator itself: in C++, or registered in Python."""
    wrapped = isinstance(rule, functools.partial) and rule.keywords.get("kernel") is operator
    return wrapped or rule is operator.py_kernels.get(COMPOSITE)


def _stay(*operands: Any, **options: Any) -> Results:
    return NotImplemented
