"""The rooms of the compiler, one module per arrow, named ``<from>_to_<to>``. docs/architecture.md has the map."""
