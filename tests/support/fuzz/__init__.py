"""Random programs, run by every pipeline and compared with a reference by bounds of an error analysis.

Takes a kind of program, a seed and a number of programs. Gives what each pipeline did with each: agreed, refused, wrong
or crashed, and for the last two a program of a few lines and a test. Refuses programs whose right results are not
known: those that hang on a rounding, and functions without an error bound.

Read in this order:

* `program.py`: a program as statements, and its reference.
* `bounds.py`: the formulas of the error analysis.
* `bounded_array.py`, `array_rules.py`: NumPy arrays that carry a reference and a bound.
* `bounded_tensor.py`, `tensor_rules.py`: the same for torch.
* `templates.py`: the generator behind all kinds; it fills templates and keeps the statements that run.
* `kernels.py`, `imperative.py`, `expressions.py`: NumPy-language kernels.
* `linalg_modules.py` (with `generics.py`), `relax_modules.py`, `torch_modules.py`: modules; `module_tests.py` runs text.
* `runner.py`: runs a program in a pipeline and compares.
* `reducer.py`: makes a failing program smaller, and a test of it.
* `__main__.py`: the driver behind ``make fuzz``.
"""
