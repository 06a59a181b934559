"""How rules are registered: a table from the name of an operation to its one rule.

Takes a table. Gives the decorator that fills it; importing the files of the rules is what fills a table.
Refuses a second rule for an operation, which would win by the order of imports.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Key = TypeVar("Key")
Rule = TypeVar("Rule", bound=Callable)


def registering(table: dict[Key, Rule]) -> Callable[..., Callable[[Rule], Rule]]:
    """A decorator ``@rule("arith.addf", ...)`` that puts a function into `table`; raises `ValueError` for two rules."""

    def names_of_rule(*names: Key) -> Callable[[Rule], Rule]:
        def register(rule: Rule) -> Rule:
            for name in names:
                if name in table:
                    raise ValueError(f"two rules for {name}")
                table[name] = rule
            return rule

        return register

    return names_of_rule
