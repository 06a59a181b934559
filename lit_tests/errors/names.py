# Names that do not exist are refused with near ones; inside a helper the call is shown as well.
# RUN: not mlirtri emit %s::unknown --stage=tri 2>&1 | FileCheck %s --check-prefix=NAME
# RUN: not mlirtri emit %s::method --stage=tri 2>&1 | FileCheck %s --check-prefix=METHOD
# RUN: not mlirtri emit %s::calls_helper --stage=tri 2>&1 | FileCheck %s --check-prefix=HELPER
# RUN: not mlirtri emit %s::metod 2>&1 | FileCheck %s --check-prefix=KERNEL
# RUN: not mlirtri emit %s 2>&1 | FileCheck %s --check-prefix=WHICH

import mlirtri as mt

Vector = mt.Tensor[[4], mt.float32]


@mt.jit
def unknown(vector: Vector):
    return vectro + 1  # noqa: F821


# NAME: {{.*}}names.py:15:12: error: name 'vectro' is not defined
# NAME-NEXT: return vectro + 1
# NAME-NEXT: {{^}}               ^~~~~~
# NAME: vector


@mt.jit
def method(a: Vector):
    return a.summ()


# METHOD: {{.*}}names.py:26:12: error: a tensor has no attribute 'summ' in a kernel
# METHOD: help: did you mean 'sum'


def helper(x):
    return x + missing  # noqa: F821


@mt.jit
def calls_helper(a: Vector):
    return helper(a)


# HELPER: {{.*}}names.py:34:16: error: name 'missing' is not defined
# HELPER: {{.*}}names.py:39:12: note: in helper, called from here
# HELPER-NEXT: return helper(a)
# HELPER-NEXT: {{^}}               ^~~~~~~~~

# KERNEL: names.py has no 'metod'
# KERNEL-NEXT: help: did you mean 'method'? its kernels are unknown, method, calls_helper

# WHICH: names.py has 3 kernels
# WHICH-NEXT: names.py::unknown|method|calls_helper
