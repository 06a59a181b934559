"""Calls of functions that are compiled elsewhere: Relax operators, TensorIR functions of the user, device regions.

*Takes* the arguments of a call in a kernel. *Gives* a `func.call` of a private declaration whose attributes say what it
stands for, and for the bridge the Relax expression or PrimFunc.
*Refuses* operands that do not fit, device regions beside loops, and pipelines without TVM.

Read in this order:

- `objects.py`: `mlirtri.device`, `mlirtri.relax` and `mlirtri.tensorir`, the objects that a kernel names.
- `calls.py`: the `func.call` and its declaration; what refuses it.
- `relax_calls.py`, `tensorir_calls.py`: calls of Relax operators and of TensorIR functions, with TVM loaded.
- `vdevices.py`: the devices of a Relax module, and its PrimFuncs by device.

The frontend, `lowering.linalg`, the bridge, `lowering.relax`, the schedules, codegen and `mlirtri` may import it.
"""
