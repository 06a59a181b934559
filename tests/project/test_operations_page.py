"""`docs/operations.md` is what the tables say, and the tables say what there is."""

from __future__ import annotations

import sys
from functools import reduce

import pytest

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.dialect.ops.table import TABLE
from mlirtri.dialect.spellings import registry as spellings
from mlirtri.lowering.frontend.library_functions import inlined
from mlirtri.pages import operations_page as reference

OPS = TABLE


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the page names math.exp2 and math.cbrt, which came with 3.11")
def test_the_page_is_the_generated_one_under_any_hash_seed():
    """Each run of the tests has another seed than the process that wrote the page."""
    assert reference.PAGE.read_text() == reference.page(), "run python -m mlirtri.pages.operations_page --write"


def test_every_operation_and_every_spelling_is_on_the_page():
    page = reference.page()
    operations = [op.name for op in OPS.values() if f"| `{op.name}`" not in page and f"| `{op.name}(" not in page]
    assert operations == []
    library = {
        name for name in spellings.SPELLINGS if not any(name.startswith(p) for p in reference.LIBRARIES.values())
    }
    assert library == set()
    listed = [each for each in spellings.SPELLINGS.values() if not reference.is_folded(each)]
    owners = {name.rpartition(".")[0] for name in inlined.FUNCTIONS}
    assert page.count("\n| `") == len(OPS) + len(listed) + len(reference._all_signs()) + len(owners)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("add", "all"), ("exp", "floats, complex"), ("negative", "integers, floats, complex"),
        ("bitwise_and", "integers, bool"),
        ("left_shift", "integers"), ("logical_not", "bool"), ("where", "all"), ("layer_norm", "floats"),
        ("arange", "all"), ("sum", "integers, floats, complex"),
    ],
)  # fmt: skip
def test_dtypes_come_from_the_type_rule(name, words):
    assert reference._dtype_words(reference.accepted_dtypes(OPS[name])) == words


def test_dtypes_are_named_by_group_and_the_rest_one_by_one():
    chosen = [DTYPES[name] for name in ("int8", "int16", "int32", "int64", "uint8", "float32")]
    assert reference._dtype_words(chosen) == "signed integers, uint8, float32"


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("add", "`add`: integers, float16, float32, float64"), ("maximum", "`maximum`: integers"), ("tanh", "PrimFunc"),
        ("softmax", "`nn.softmax`: float32, float64"), ("transpose", "`permute_dims`"), ("flip", "PrimFunc"),
        ("logical_and", "`logical_and`"),
    ],
)  # fmt: skip
def test_relax_operators_and_their_dtypes(name, cell):
    assert reference._relax(OPS[name], reference.accepted_dtypes(OPS[name])) == cell


def test_relax_has_every_operator_that_the_page_names():
    from mlirtri.lowering.toolchain.tvm_names import relax

    names = [name for op in OPS.values() if (name := reference.relax_operator(op))]
    assert len(names) > 50
    assert all(callable(reduce(getattr, name.split("."), relax.op)) for name in names)


def test_a_parameter_that_mlirtri_lacks_is_not_shown():
    assert reference._spelling(spellings.lookup("numpy.ptp"))[0] == "`np.ptp(a, axis=None, keepdims=False)`"
    assert reference._spelling(spellings.lookup("Tensor.T"))[0] == "`Tensor.T`"
