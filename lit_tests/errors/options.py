# Options that do not exist, and files that do not import or parse. Nothing of the compiler's own frames is shown.
# RUN: not mlirtri emit %s --stage=fusedd 2>&1 | FileCheck %s --check-prefix=STAGE
# RUN: not mlirtri emit %s --target=tpu 2>&1 | FileCheck %s --check-prefix=TARGET
# RUN: not mlirtri emit %s --target=cuda --pipeline=mlir 2>&1 | FileCheck %s --check-prefix=MLIR
# RUN: not mlirtri emit %s --pipeline=linlag 2>&1 | FileCheck %s --check-prefix=PIPELINE
# RUN: not mlirtri emit %s --arg a=f33[2] 2>&1 | FileCheck %s --check-prefix=ARGUMENT
# RUN: not mlirtri emit %s --from=fused 2>&1 | FileCheck %s --check-prefix=PARSE
# RUN: not mlirtri emit %S/inputs/broken.py 2>&1 | FileCheck %s --check-prefix=IMPORT
# RUN: not mlirtri emit %S/inputs/absent.py 2>&1 | FileCheck %s --check-prefix=ABSENT
# RUN: not mlirtri emit %s --stage=tri --pass=nonsense 2>&1 | FileCheck %s --check-prefix=PASS

import mlirtri as mt


@mt.jit
def same(a: mt.Tensor[[4], mt.float32]):
    return a


# STAGE-NOT: Traceback
# STAGE: pipeline 'linalg' has no stage 'fusedd'
# STAGE-NEXT: help: did you mean 'fused'? its stages are ast, tri, linalg, fused

# TARGET: unknown target 'tpu'
# TARGET-NEXT: help: use "cpu"

# MLIR: pipeline 'mlir' makes CPU code only

# PIPELINE: Invalid value for '--pipeline'

# ARGUMENT: Invalid value for '--arg': a: 'f33' is not a dtype of mlirtri

# PARSE-NOT: Traceback
# PARSE: {{.*}}options.py:1:1: error:

# IMPORT-NOT: importlib
# IMPORT: {{.*}}broken.py:5:1: error: broken.py does not import: ZeroDivisionError: division by zero
# IMPORT-NEXT: half = 1 / 0

# ABSENT: there is no file {{.*}}absent.py

# PASS: no pass 'nonsense' ran
