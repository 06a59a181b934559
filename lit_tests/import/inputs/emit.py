"""Prints a stage of an imported function: ``emit.py FILE.mlir STAGE [ENTRY]``; an error as a user sees it."""

import sys

import mlirtri as mt

try:
    print(mt.from_mlir(sys.argv[1]).compile(*sys.argv[3:], pipeline="mlir").ir[sys.argv[2]])
except mt.KernelError as error:
    sys.exit(str(error))
