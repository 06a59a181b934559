"""Calls of functions that are compiled elsewhere: Relax operators, TensorIR functions of the user, device regions.

Takes the arguments of a call in a kernel. Gives a `func.call` of a private declaration whose attributes say what it
stands for, and for the bridge the Relax expression or PrimFunc.
Refuses operands that do not fit, such calls beside loops, and pipelines without TVM.

Read in this order:

* `base.py`: `External`, the object that a kernel names.
* `calls.py`: the `func.call` and its declaration; what refuses it.
* `relax_library.py`, `relax_calls.py`: `mlirtri.relax`, without and with TVM loaded.
* `tensorir.py`, `tensorir_calls.py`: `mlirtri.tensorir`, without and with TVM loaded.
* `devices.py`: `mlirtri.device`; `vdevices.py`: the devices of a module; `device_functions.py`: PrimFuncs by device.

The frontend, `lowering.linalg`, the bridge, `lowering.relax`, the schedules, codegen and the front door may import it.
"""
