# A weight of a product is packed by a function of its own, which runs when weights are bound.
# RUN: python %s > %t.mlir
# RUN: mlirtri emit %t.mlir::layer --stage=tir | FileCheck %s
# RUN: mlirtri emit %t.mlir::scaled --stage=tir | FileCheck %s --check-prefix=SUM
# RUN: mlirtri emit %t.mlir::filtered --stage=tir | FileCheck %s --check-prefix=FILTERS

print("""
func.func @layer(%x: tensor<8x64xf32>) -> tensor<8x40xf32> {
  %w = arith.constant dense_resource<w> : tensor<64x40xf32>
  %0 = tensor.empty() : tensor<8x40xf32>
  %z = arith.constant 0.0 : f32
  %1 = linalg.fill ins(%z : f32) outs(%0 : tensor<8x40xf32>) -> tensor<8x40xf32>
  %2 = linalg.matmul ins(%x, %w : tensor<8x64xf32>, tensor<64x40xf32>) outs(%1 : tensor<8x40xf32>) -> tensor<8x40xf32>
  return %2 : tensor<8x40xf32>
}

func.func @filtered(%x: tensor<1x8x9x9xf32>) -> tensor<1x40x7x7xf32> {
  %w = arith.constant dense_resource<f> : tensor<40x8x3x3xf32>
  %0 = tensor.empty() : tensor<1x40x7x7xf32>
  %z = arith.constant 0.0 : f32
  %1 = linalg.fill ins(%z : f32) outs(%0 : tensor<1x40x7x7xf32>) -> tensor<1x40x7x7xf32>
  %2 = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<1x8x9x9xf32>, tensor<40x8x3x3xf32>)
      outs(%1 : tensor<1x40x7x7xf32>) -> tensor<1x40x7x7xf32>
  return %2 : tensor<1x40x7x7xf32>
}

func.func @scaled(%x: tensor<8x40xf32>) -> tensor<8x40xf32> {
  %w = arith.constant dense_resource<w> : tensor<64x40xf32>
  %e = tensor.empty() : tensor<40xf32>
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<40xf32>) -> tensor<40xf32>
  %s = linalg.reduce { arith.addf } ins(%w : tensor<64x40xf32>) outs(%f : tensor<40xf32>) dimensions = [0]
  %0 = tensor.empty() : tensor<8x40xf32>
  %b = linalg.broadcast ins(%s : tensor<40xf32>) outs(%0 : tensor<8x40xf32>) dimensions = [0]
  %1 = linalg.mul ins(%x, %b : tensor<8x40xf32>, tensor<8x40xf32>) outs(%0 : tensor<8x40xf32>) -> tensor<8x40xf32>
  return %1 : tensor<8x40xf32>
}
""")
ONES = {"w": 64 * 40, "f": 40 * 8 * 9}
print("{-# dialect_resources: { builtin: {")
print(", ".join(f'{name}: "0x04000000{"0000803F" * size}"' for name, size in ONES.items()), "} } #-}")

# CHECK: def {{.*}}_packed(x: {{.*}}, [[P:[a-z_0-9]+]]: T.Buffer(({{.*}}(3), {{.*}}(64), {{.*}}(16)), "float32"
# CHECK: def pack_weight(
# CHECK-NEXT: T.func_attr({"mlirtri.once": True
# CHECK: [[W:[a-z_0-9]+]] = R.call_tir(cls.pack_weight, (w,)
# CHECK: R.call_tir(cls.{{.*}}_packed, (x, [[W]])

# MarkOnce: so does the sum of weights.
# SUM: def reduce_addf(
# SUM-NEXT: T.func_attr({"mlirtri.once": True
# SUM: def scaled(

# Filters of a convolution, for tiles whose lanes are output channels.
# FILTERS: def {{.*}}_packed(x: {{.*}}: T.Buffer((T.int64(3), T.int64(8), T.int64(3), T.int64(3), T.int64(16)), "float32"
# FILTERS: def pack_weight({{.*}}(40), {{.*}}(8), {{.*}}(3), {{.*}}(3)), "float32")
# FILTERS-NEXT: T.func_attr({"mlirtri.once": True
