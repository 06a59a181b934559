# Reductions and products: the accumulator comes first in the body, and that of halves is f32.
# RUN: mlirtri emit "%s::*" --stage=linalg | FileCheck %s

import mlirtri as mt


@mt.jit
def rows(x: mt.Tensor[[4, 8], mt.float32]):
    return x.sum(1)


# CHECK-LABEL: func.func @rows
# CHECK: linalg.fill ins(%{{.*}} : f32)
# CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "reduction"]
# CHECK-NEXT: ^bb0(%[[IN:.*]]: f32, %[[OUT:.*]]: f32):
# CHECK-NEXT: arith.addf %[[OUT]], %[[IN]]


@mt.jit
def half_rows(x: mt.Tensor[[4, 8], mt.float16]):
    return x.sum(1)


# CHECK-LABEL: func.func @half_rows
# CHECK-SAME: -> tensor<4xf16>
# CHECK: tensor.empty() : tensor<4xf32>
# CHECK: arith.addf %{{.*}} : f32
# CHECK: arith.truncf %{{.*}} : f32 to f16


@mt.jit
def largest(x: mt.Tensor[[4, 8], mt.float32]):
    return mt.argmax(x, 1)


# CHECK-LABEL: func.func @largest
# CHECK-SAME: -> tensor<4xi64>
# CHECK: %[[LOWEST:.*]] = arith.constant 0xFF800000 : f32
# CHECK: %[[VALUES:.*]] = linalg.fill ins(%[[LOWEST]] : f32)
# CHECK: %[[PLACES:.*]] = linalg.fill ins(%{{.*}} : i64)
# CHECK: %[[BOTH:.*]]:2 = linalg.generic {{.*}}["parallel", "reduction"]{{.*}} outs(%[[VALUES]], %[[PLACES]] :
# CHECK-NEXT: ^bb0(%[[IN:.*]]: f32, %[[OUT:.*]]: f32, %[[PLACE:.*]]: i64):
# CHECK-NEXT: %[[INDEX:.*]] = linalg.index 1 : index
# CHECK-NEXT: %[[HERE:.*]] = arith.index_cast %[[INDEX]] : index to i64
# CHECK-NEXT: arith.cmpf ogt, %[[IN]], %[[OUT]] : f32
# Of equal values the first wins, whatever order the loop runs in.
# CHECK: arith.cmpi slt, %[[HERE]], %[[PLACE]] : i64
# CHECK: %[[VALUE:.*]] = arith.select %[[BETTER:.*]], %[[IN]], %[[OUT]] : f32
# CHECK-NEXT: %[[WHERE:.*]] = arith.select %[[BETTER]], %[[HERE]], %[[PLACE]] : i64
# CHECK-NEXT: linalg.yield %[[VALUE]], %[[WHERE]] : f32, i64
# CHECK: return %[[BOTH]]#1 : tensor<4xi64>


@mt.jit
def product(a: mt.Tensor[[4, 8], mt.float32], b: mt.Tensor[[8, 16], mt.float32]):
    return a @ b


# CHECK-LABEL: func.func @product
# CHECK: linalg.matmul ins(%a, %b : tensor<4x8xf32>, tensor<8x16xf32>) outs(%{{.*}} : tensor<4x16xf32>)


@mt.jit
def half_product(a: mt.Tensor[[3, 4, 8], mt.bfloat16], b: mt.Tensor[[3, 8, 16], mt.bfloat16]):
    return a @ b


# CHECK-LABEL: func.func @half_product
# CHECK-SAME: -> tensor<3x4x16xbf16>
# CHECK: linalg.batch_matmul {{.*}} outs(%{{.*}} : tensor<3x4x16xf32>)
# CHECK: arith.truncf %{{.*}} : f32 to bf16
