"""Lists and dicts that a kernel makes and changes: their structure is known while compiling, as Python's own."""

from __future__ import annotations

import numpy as np
import pytest

import mlirtri as mt

SETTINGS = {"scale": 2.0, "sizes": (1, 2)}
NAMES = [1.0, 2.0]


def lists(x):
    out = []
    for i in range(3):
        out.append(x * i)
        if i % 2:
            out.append(x[i])
    alias, copy = out, out.copy()
    alias[1] = x[5]
    out += [x[3]]
    last = out.pop()
    del alias[0]
    order = [3, 1, 2]
    order.sort()
    order.reverse()
    order.insert(0, 7)
    return alias, out, copy, last, order, len(out), out is alias, 2 in order, order.index(2)


def dicts(x):
    d = {"a": x.sum(), "b": x * 2}
    d["c"] = d["a"] + 1
    d["a"] += 3
    d["b"][0] = 9
    d["b"] *= 2
    squares = {k: x[k] ** 2 for k in range(3)}
    merged = {**squares, 7: x[1]} | {8: x[2]}
    merged.update({9: x[4]})
    popped = squares.pop(0)
    del squares[1]
    zipped = dict(zip(("u", "v"), x[:2], strict=True))
    return d, squares, merged, popped, zipped, "a" in d, d.get("q", 5.0), len(d), max(zipped.values())


def views_and_iteration(x):
    d = {"a": x[0], "b": x[1]}
    total = 0.0
    for _, v in d.items():  # noqa: PERF102 - items that change
        d["b"] = d["b"] + 10
        total += v
    values = d.values()
    d["c"] = x[2]
    for k in d:
        d[k] = d[k] * 2
    doubled = [x[0], x[1], x[2]]
    for i, v in enumerate(doubled):
        doubled[i] = v * 2
        doubled[-1] = doubled[-1] + 1
    return total, sum(values), len(list(d.keys())), doubled


def carried_by_loops(x):
    d, state = {"sum": 0.0, "most": x[0], "text": "kept"}, [x * 1, x * 2]
    for i in range(len(x)):
        d["sum"] += x[i]
        d["most"] = max(d["most"], x[i])
    for _ in range(41):
        state[0], state[1] = state[1], state[0]
        state[0][0] += 1
    counts = {"i": 0, "total": 0.0}
    while counts["total"] < 8:
        counts["total"] += x[counts["i"]]
        counts["i"] += 1
    kept = current = [0.0, 0.0]
    for i in range(50):
        current = [current[0] + x[i % 6], current[1] + 1]
    kept[0] = 5.0
    return d["sum"], d["most"], state, counts, kept, current, d["text"] == "kept"


def merged_by_branches(x):
    d, grown = {"v": x[0], "n": 1}, []
    if x[1] > 0:
        d["v"] = x[2]
        grown.append(x[2])
    else:
        d["n"] = 2
        grown.append(x[3])
    a, b = [x[0]], [x[1]]
    either = a if x[0] > 5 else b
    limit = [0.0, 0]
    for i in range(60):
        limit[0] = limit[0] + x[i % 6]
        if limit[0] > 20:
            limit[1] = i
            break
    return d, grown, either[0], limit


def change(values, v):
    values.append(v)
    if v > 1:
        values[0] = v * 2
    return len(values)


def remembered(n, memory, x):
    if n not in memory:
        memory[n] = remembered(n - 1, memory, x) + remembered(n - 2, memory, x) if n > 1 else x[n]
    return memory[n]


def scaled(x, **options):
    return x * options.get("scale", 1) + options["shift"]


def changed_by_functions(x):
    values = [x[0]]
    count = change(values, x[1])
    alias = values
    change(alias, x[2])
    out = [0.0]

    def add(v):
        out[0] = out[0] + v

    if x[0] > 0:
        add(x[1])
    for i in range(50):
        add(x[i % 6])
    memory = {}
    fibonacci = remembered(12, memory, x)
    options = {"scale": 3.0, "shift": x[0]}
    return values, count, out, fibonacci, len(memory), scaled(x, **options) + scaled(x, shift=SETTINGS["scale"])


def compared(x):
    pair = [x[0], x[1]]
    best = (x[0], 0)
    for i in range(40):
        candidate = (x[i % 6], i)
        if candidate > best:
            best = candidate
    return (
        pair == [x[0], x[1]], pair != [x[0], x[2]], (x[0], x[1]) < (x[0], x[2]), (x[0], x[1]) > (x[0],), best,
        {"a": x[0]} == {"a": x[0]}, {"a": x[0]} == {"b": x[0]}, pair == (x[0], x[1]), (x[0], 2) >= (x[0], 3),
    )  # fmt: skip


def same(mine, other):
    if isinstance(other, dict):
        return type(mine) is dict and list(mine) == list(other) and all(same(mine[k], other[k]) for k in other)
    if isinstance(other, (list, tuple)):
        return type(mine) is type(other) and len(mine) == len(other) and all(map(same, mine, other))
    return np.shape(mine) == np.shape(other) and np.allclose(mine, other)


@pytest.mark.parametrize(
    ("function", "pipeline"),
    [(lists, "linalg"), (dicts, "mlir"), (views_and_iteration, "relax"), (carried_by_loops, "linalg"),
     (carried_by_loops, "interpreter"), (merged_by_branches, "linalg"), (changed_by_functions, "linalg"),
     (compared, "linalg")],
)  # fmt: skip
def test_they_are_pythons(function, pipeline):
    x = np.arange(1.0, 7.0)
    expected, found = function(x.copy()), mt.jit(function, pipeline=pipeline)(x.copy())
    assert same(found, expected), (found, expected)


def test_a_captured_dict_that_changes_is_read_again():
    @mt.jit
    def f(x):
        return x * SETTINGS["scale"] + SETTINGS["sizes"][1]

    x = np.ones(2)
    assert f(x)[0] == 4
    try:
        SETTINGS["scale"] = 3.0
        assert f(x)[0] == 5
    finally:
        SETTINGS["scale"] = 2.0


def grows(x):
    values = []
    for _ in range(100):
        values.append(x[0])  # noqa: PERF401
    return values


def grows_in_one_arm(x):
    values = []
    for i in range(6):
        if x[i] > 2:
            values.append(x[i])  # noqa: PERF401
    return values


def changes_captured(x):
    NAMES.append(3.0)
    return x


def changes_either(x):
    a, b = [x[0]], [x[1]]
    c = a if x[0] > 5 else b
    c[0] = 7.0
    return a, b


def changes_default(x, values=[1.0]):
    values.append(x[0])
    return values


def calls_changes_default(x):
    return changes_default(x)


def call(f, v):
    f(v)


def called_elsewhere(x):
    out = [0.0]

    def add(v):
        out[0] = out[0] + v

    call(add, x[0])
    return out


def misspelled(x):
    return x * {"alpha": 1}["alhpa"]


def key_of_run_time(x):
    return {1: 2.0}[x[0]]


def sorts(x):
    values = [x[1], x[0]]
    values.sort()
    return values


def grows_under_its_loop(x):
    values = [x[0], x[1]]
    for v in values:
        values.append(v)  # noqa: PERF402
    return values


@pytest.mark.parametrize(
    ("function", "message"),
    [(grows, "fill an array by index, or loop over mlirtri.static_range"), (grows_in_one_arm, "a list of nothing"),
     (changes_captured, "it comes from outside of the kernel"), (changes_either, "the list or dict of another"),
     (calls_changes_default, "the default of a parameter"), (called_elsewhere, "not called by the function"),
     (misspelled, "no key 'alhpa'(.|\n)*its keys are 'alpha'"), (key_of_run_time, "a key is known at compile time"),
     (sorts, "sort.. compares elements of run time(.|\n)*numpy.sort"), (grows_under_its_loop, "changes the length")],
)  # fmt: skip
def test_what_is_not_known_is_refused(function, message):
    with pytest.raises(mt.KernelError, match=message):
        mt.jit(function)(np.arange(1.0, 7.0))
