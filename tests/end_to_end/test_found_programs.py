"""Programs that random tests found, reduced to a few lines: each gave wrong numbers or did not compile."""

from __future__ import annotations

import numpy as np
from python_programs import check_program, every_program, on

COMPLEX = np.array([[1.5 - 0.5j]], np.complex64)


@on(COMPLEX, 2 * COMPLEX)
def complex_quotient_without_a_loop(x, y):
    return x / (x + y)


@every_program(__name__)
def test_found_program(function, arguments, pipeline):
    check_program(function, arguments, pipeline)
