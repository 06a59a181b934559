"""Prints a stage of an imported function: ``emit.py FILE.mlir STAGE [ENTRY]``; an error as a user sees it."""

import sys

import mlirtri as mt

STAGE = sys.argv[2]
try:
    pipeline = "linalg" if STAGE in ("relax", "tir", "scheduled") else "mlir"
    print(mt.from_mlir(sys.argv[1]).compile(*sys.argv[3:], pipeline=pipeline).ir[STAGE])
except mt.KernelError as error:
    sys.exit(str(error))
