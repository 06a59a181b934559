# What exists is listed: stages with AKG's names for them, settings, versions.
# RUN: mlirtri stages | FileCheck %s
# RUN: mlirtri stages --pipeline=relax --target=cuda | FileCheck %s --check-prefix=CUDA
# RUN: mlirtri env | FileCheck %s --check-prefix=ENV
# RUN: env MLIRTRI_PIPELINE=mlir mlirtri env | FileCheck %s --check-prefix=SET
# RUN: mlirtri --version | FileCheck %s --check-prefix=VERSION
# RUN: mlirtri emit --help | FileCheck %s --check-prefix=HELP

# CHECK: linalg {{ *}}ast {{ *}}python {{ *}}lowering/frontend/python_to_ast.py
# CHECK: fused {{ *}}mlir {{ *}}Poly {{ *}}lowering/fusion/linalg_to_fused.py
# CHECK: relax {{ *}}tvmscript {{ *}}lowering/bridge/fused_to_relax.py
# CHECK: relax {{ *}}ast
# CHECK-NOT: fused
# CHECK: relax {{ *}}tvmscript {{ *}}lowering/bridge/tri_to_relax.py
# CHECK: mlir {{ *}}ast
# CHECK: bufferized
# CHECK: llvmdialect

# CUDA: scheduled
# CUDA-NEXT: cuda {{ *}}cuda {{ *}}BeforeLowerFunc {{ *}}lowering/codegen/scheduled_to_cuda.py

# ENV: MLIRTRI_TARGET {{ *}}cpu {{ *}}cpu
# ENV: MLIRTRI_DUMP_DIR

# SET: MLIRTRI_PIPELINE {{ *}}mlir {{ *}}linalg

# VERSION: mlirtri, version {{[0-9]+\.[0-9]+}}

# HELP: Usage: mlirtri emit [OPTIONS] FILE[::KERNEL
# HELP: --stage
# HELP: --from
