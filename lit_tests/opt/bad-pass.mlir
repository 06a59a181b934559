// RUN: not mlirtri-opt --no-such-pass %s 2>&1 | FileCheck --check-prefix=PASS %s
// RUN: not mlirtri-opt --pass-pipeline='builtin.module(func.func(sparsifier))' %s 2>&1 | FileCheck --check-prefix=NESTED %s

// PASS: --no-such-pass is neither an option nor a pass
// NESTED: 'sparsifier' runs on modules only
func.func @f() {
  return
}
