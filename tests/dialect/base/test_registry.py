"""The registry of rules: names are entered once, in order, by decorator or by table."""

from __future__ import annotations

import pytest

from mlirtri.dialect.base.registry import Registry


def rule() -> None: ...


def test_a_function_is_entered_under_each_name():
    rules = Registry("rule")
    assert rules.register("a", "b")(rule) is rule
    assert dict(rules) == {"a": rule, "b": rule}
    assert "a" in rules
    assert "c" not in rules


def test_a_second_entry_is_refused():
    rules = Registry("rule", {"a": rule})
    for enter in (
        lambda: rules.add("a", print),
        lambda: rules.register("b", "a")(print),
        lambda: rules.__ior__({"a": print}),
        lambda: Registry("rule", rules, {"a": print}),
    ):
        with pytest.raises(ValueError, match="a second rule for 'a'"):
            enter()
    assert rules["a"] is rule
