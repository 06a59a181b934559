# merge-products: products of one matrix with weights of a program are one product, if a later stage prepares weights.
# RUN: python %s > %t.mlir
# RUN: mlirtri emit %t.mlir --stage=fused,tir | FileCheck %s
# RUN: mlirtri emit %t.mlir --stage=fused | FileCheck %s --check-prefix=ALONE

PRODUCT = """
  %{n}w = arith.constant dense_resource<{n}> : tensor<16x16xf32>
  %{n}m = linalg.matmul ins(%x, %{n}w : tensor<4x16xf32>, tensor<16x16xf32>) outs(%f : tensor<4x16xf32>) -> tensor<4x16xf32>
  %{n} = tensor.expand_shape %{n}m [[0], [1, 2]] output_shape [4, 2, 8] : tensor<4x16xf32> into tensor<4x2x8xf32>"""

print("func.func @heads(%x: tensor<4x16xf32>) -> (tensor<4x2x8xf32>, tensor<4x2x8xf32>) {")
print("  %z = arith.constant 0.0 : f32\n  %e = tensor.empty() : tensor<4x16xf32>")
print("  %f = linalg.fill ins(%z : f32) outs(%e : tensor<4x16xf32>) -> tensor<4x16xf32>")
print(*(PRODUCT.format(n=name) for name in "qk"))
print("  return %q, %k : tensor<4x2x8xf32>, tensor<4x2x8xf32>\n}")
DATA = (f'{name}: "0x04000000{digit * 2048}"' for name, digit in zip("qk", "01", strict=True))
print("{-# dialect_resources: { builtin: { " + ", ".join(DATA) + " } } #-}")

# What an earlier stage alone prints is what it is in a whole compilation.
# ALONE: tensor.concat dim(1)

# CHECK-LABEL: func.func @heads(
# CHECK: %[[WEIGHTS:.*]] = tensor.concat dim(1)
# CHECK: linalg.matmul ins(%x, %[[WEIGHTS]] :
# CHECK-NOT: linalg.matmul
# CHECK: return
