// An MLIR file of linalg becomes a Relax module; so does one of `tri`, with Relax's own operators.
// RUN: mlirtri translate --mlir-to-relax %s | FileCheck %s
// RUN: mlirtri emit %S/inputs/mean.py --stage=tri --complete | mlirtri translate --mlir-to-relax - | FileCheck %s --check-prefix=TRI
// RUN: not mlirtri translate --mlir-to-relax %S/inputs/mean.py 2>&1 | FileCheck %s --check-prefix=WRONG

#rows = affine_map<(i, j) -> (i)>
#all = affine_map<(i, j) -> (i, j)>

func.func @row_sums(%x: tensor<4x8xf32>) -> tensor<4xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<4xf32>) -> tensor<4xf32>
  %sums = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x8xf32>) outs(%start : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %sum = arith.addf %out, %in : f32
    linalg.yield %sum : f32
  } -> tensor<4xf32>
  return %sums : tensor<4xf32>
}

// CHECK: @T.prim_func
// CHECK: T.axis.remap("SR",
// CHECK: T.float32(0.0)
// CHECK: def row_sums({{.*}}: R.Tensor((4, 8), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
// CHECK: R.call_tir(

// TRI: def row_means(
// TRI: R.mean(x, axis=[1]

// WRONG: mean.py:1:1: error:
