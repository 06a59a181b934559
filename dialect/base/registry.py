"""The registry of rules: a table from names to entries that refuses a second entry for one name.

Every table that several files fill is one: operations of the dialect, spellings, lowering rules. Importing the files
fills it, so a second entry would win or lose by the order of imports.

    RULES: Registry[str, Rule] = Registry("linalg rule")

    @RULES.register("reshape", "expand_dims")
    def _reshape(op, operation, operands): ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

Name = TypeVar("Name")
Entry = TypeVar("Entry")


class Registry(Mapping[Name, Entry]):
    """A mapping that only grows, in the order of registration."""

    def __init__(self, kind: str, *tables: Mapping[Name, Entry]) -> None:
        """Join `tables`; `kind` says what an entry is, for the error."""
        self.kind = kind
        self.entries: dict[Name, Entry] = {}
        """The table itself; tests replace entries here."""
        for table in tables:
            for name, entry in table.items():
                self.add(name, entry)

    def add(self, name: Name, entry: Entry) -> None:
        """Add one entry; raises `ValueError` if the name has one already."""
        if name in self.entries:
            raise ValueError(f"a second {self.kind} for {name!r}")
        self.entries[name] = entry

    def __ior__(self, table: Mapping[Name, Entry]) -> Registry[Name, Entry]:
        """Add every entry of `table`."""
        for name, entry in table.items():
            self.add(name, entry)
        return self

    def register(self, *names: Name) -> Callable[[Entry], Entry]:
        """Return the decorator that registers a function under each of `names`."""

        def enter(entry: Entry) -> Entry:
            for name in names:
                self.add(name, entry)
            return entry

        return enter

    def __getitem__(self, name: Name) -> Entry:
        return self.entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    def __iter__(self) -> Iterator[Name]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)
