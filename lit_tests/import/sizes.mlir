// Sizes known at run time: what the arguments' sizes say, in MLIR, in TVM, and as numbers after pointers.
// RUN: mlirtri emit %s::join --stage=linalg | FileCheck %s
// RUN: mlirtri emit %s::join --stage=relax | FileCheck %s --check-prefix=RELAX
// RUN: mlirtri emit %s::join --stage=llvmdialect --pipeline=mlir | FileCheck %s --check-prefix=LLVM
// RUN: mlirtri emit %s::first --stage=linalg | FileCheck %s --check-prefix=FIRST
// RUN: mlirtri emit %s::reshape --stage=linalg | FileCheck %s --check-prefix=RESHAPE

// A test of the size of a tensor, which is never negative, folds away.
// CHECK-LABEL: func.func @join(
// CHECK-NOT: arith.select
// CHECK-NOT: cf.assert
// CHECK: tensor.concat dim(0) %x, %y

// RELAX: def join(x: R.Tensor((n, m), dtype="float32"), y: R.Tensor((k, m), dtype="float32")) -> R.Tensor(("n + k", m)

// LLVM: llvm.func @mlirtri_join(%{{[^:]*}}: !llvm.ptr {llvm.noalias}, %{{[^:]*}}: !llvm.ptr {llvm.noalias},
// LLVM-SAME: %{{[^:]*}}: !llvm.ptr {llvm.noalias}, %{{[^:]*}}: i64, %{{[^:]*}}: i64, %{{[^:]*}}: i64, %{{[^:]*}}: i64,
// LLVM-SAME: %{{[^:]*}}: i64, %{{[^:]*}}: i64)
func.func @join(%x: tensor<?x?xf32> loc("x"), %y: tensor<?x?xf32> loc("y")) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0 : i64
  %n = tensor.dim %x, %c0 : tensor<?x?xf32>
  %i = arith.index_cast %n : index to i64
  %good = arith.cmpi sge, %i, %zero : i64
  cf.assert %good, "negative size"
  %r = tensor.concat dim(0) %x, %y : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}

// A length that elements say is a number beside an array that has room for the longest.
// FIRST-LABEL: func.func @first(
// FIRST-SAME: -> (tensor<?xf32> {mlirtri.lengths = array<i64: 0, 1>}, tensor<i64>,
// FIRST-SAME: tensor<i1> {mlirtri.check = "ProgramAssertionError: a slice is out of bounds"
// FIRST: %[[ROOM:.*]] = tensor.dim %x
// FIRST: %[[PART:.*]] = tensor.extract_slice %x[0] [%[[LENGTH:.*]]] [1]
// FIRST: tensor.insert_slice %[[PART]] into %{{.*}}[0] [%[[LENGTH]]] [1]
func.func @first(%x: tensor<?xf32> loc("x"), %n: tensor<i64> loc("n")) -> tensor<?xf32> {
  %e = tensor.extract %n[] : tensor<i64>
  %two = arith.constant 2 : i64
  %f = arith.shli %e, %two : i64
  %k = arith.index_cast %f : i64 to index
  %r = tensor.extract_slice %x[0] [%k] [1] : tensor<?xf32> to tensor<?xf32>
  return %r : tensor<?xf32>
}

// Only the axes that change are touched by a reshape.
// RESHAPE-LABEL: func.func @reshape(
// RESHAPE: tensor.expand_shape %x {{\[\[}}0, 1], [2], [3]]
// RESHAPE-NOT: tensor.reshape
func.func @reshape(%x: tensor<6x?x?xf32> loc("x")) -> tensor<2x3x?x?xf32> {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %n = tensor.dim %x, %c1 : tensor<6x?x?xf32>
  %m = tensor.dim %x, %c2 : tensor<6x?x?xf32>
  %s = tensor.from_elements %c2, %c3, %n, %m : tensor<4xindex>
  %r = tensor.reshape %x(%s) : (tensor<6x?x?xf32>, tensor<4xindex>) -> tensor<2x3x?x?xf32>
  return %r : tensor<2x3x?x?xf32>
}
