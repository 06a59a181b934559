"""A file that does not import."""

import mlirtri as mt

half = 1 / 0


@mt.jit
def never(a):
    return a
