"""Pages of `docs/` that are made from the compiler's own tables; a test keeps page and tables equal.

*Takes* the op table, the registry of spellings, the rules of the importers and of the bridge.
*Gives* Markdown, printed or written into the checkout.
*Refuses* to write outside of a checkout.
Nothing imports it; ``python -m mlirtri.pages.operations_page --write`` runs one.

- `operations_page.py`: `docs/operations.md`.
- `coverage_page.py`: `docs/coverage.md`; `torch_operators.py`: its section of measured torch operators.
- `python_page.py`: `docs/python.md`.
"""
