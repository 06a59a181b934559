// Each piece needs one pass of the stage: without it, what is checked does not come about.
// RUN: mlirtri-opt --split-input-file --linalg-to-fused %s | FileCheck %s

#id = affine_map<(i) -> (i)>

// linalg-fuse-elementwise-ops: two operations become one.
// CHECK-LABEL: func.func @fuse
// CHECK: %[[SUM:.*]] = arith.addf
// CHECK-NEXT: arith.mulf %[[SUM]]
// CHECK-NOT: linalg.generic
func.func @fuse(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
      ins(%a, %b : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.addf %x, %y : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
      ins(%0, %a : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.mulf %x, %y : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// convert-elementwise-to-linalg: arith on whole tensors.
// CHECK-LABEL: func.func @whole
// CHECK: linalg.generic
// CHECK: arith.addf %{{.*}} : f32
func.func @whole(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.addf %a, %b : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// canonicalize: a branch that is known.
// CHECK-LABEL: func.func @known
// CHECK-NOT: scf.if
// CHECK: return %a
func.func @known(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %true = arith.constant true
  %0 = scf.if %true -> (tensor<4xf32>) {
    scf.yield %a : tensor<4xf32>
  } else {
    scf.yield %b : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

// cse: the same value once.
// CHECK-LABEL: func.func @twice
// CHECK-COUNT-1: tensor.extract_slice
// CHECK-NOT: tensor.extract_slice
// CHECK: return
func.func @twice(%a: tensor<4xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = tensor.extract_slice %a[1] [2] [1] : tensor<4xf32> to tensor<2xf32>
  %1 = tensor.extract_slice %a[1] [2] [1] : tensor<4xf32> to tensor<2xf32>
  return %0, %1 : tensor<2xf32>, tensor<2xf32>
}

// -----

#row = affine_map<(i, j) -> (i, j)>

// linalg-fold-unit-extent-dims: an axis of size 1 is no loop, and needs no reshapes.
// CHECK-LABEL: func.func @unit
// CHECK-NOT: tensor.expand_shape
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel"]}
// CHECK-NOT: tensor.collapse_shape
// CHECK: return
func.func @unit(%a: tensor<4xf32>) -> tensor<4xf32> {
  %r = tensor.expand_shape %a [[0, 1]] output_shape [4, 1] : tensor<4xf32> into tensor<4x1xf32>
  %e = tensor.empty() : tensor<4x1xf32>
  %0 = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
      ins(%r : tensor<4x1xf32>) outs(%e : tensor<4x1xf32>) {
  ^bb0(%x: f32, %o: f32):
    %s = math.exp %x : f32
    linalg.yield %s : f32
  } -> tensor<4x1xf32>
  %1 = tensor.collapse_shape %0 [[0, 1]] : tensor<4x1xf32> into tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

#a = affine_map<(i, j, k) -> (i, k)>
#b = affine_map<(i, j, k) -> (k, j)>
#c = affine_map<(i, j, k) -> (i, j)>
#id = affine_map<(i, j) -> (i, j)>

// guard-producers: exp would be computed for each column; release-producers: what marks it is gone.
// CHECK-LABEL: func.func @contraction
// CHECK: math.exp
// CHECK-NEXT: linalg.yield
// CHECK-NOT: bufferization.dealloc_tensor
// CHECK: arith.mulf
func.func @contraction(%a: tensor<4x8xf32>, %b: tensor<8x16xf32>, %c: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%a : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%x: f32, %o: f32):
    %s = math.exp %x : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %f = tensor.empty() : tensor<4x16xf32>
  %g = linalg.fill ins(%zero : f32) outs(%f : tensor<4x16xf32>) -> tensor<4x16xf32>
  %1 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%0, %b : tensor<4x8xf32>, tensor<8x16xf32>) outs(%g : tensor<4x16xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %p = arith.mulf %x, %y : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<4x16xf32>
  return %1 : tensor<4x16xf32>
}

// -----

// spread-reshapes: a softmax takes heads as one axis, the product after it by groups.
// CHECK-LABEL: func.func @undone
// CHECK-NOT: tensor.collapse_shape
// CHECK: linalg.generic {{.*}}["parallel", "parallel", "reduction"]{{.*}} ins(%{{.*}} : tensor<2x4x8xf32>)
// CHECK: arith.maximumf
// CHECK-NOT: tensor.expand_shape
// CHECK: return %{{.*}} : tensor<2x4x5xf32>
#row = affine_map<(i, j) -> (i)>
#id = affine_map<(i, j) -> (i, j)>
#left = affine_map<(g, h, j, k) -> (g, h, k)>
#right = affine_map<(g, h, j, k) -> (g, k, j)>
#out = affine_map<(g, h, j, k) -> (g, h, j)>
func.func @undone(%x: tensor<2x4x8xf32>, %v: tensor<2x8x5xf32>) -> tensor<2x4x5xf32> {
  %lowest = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %s = tensor.collapse_shape %x [[0, 1], [2]] : tensor<2x4x8xf32> into tensor<8x8xf32>
  %e = tensor.empty() : tensor<8xf32>
  %f = linalg.fill ins(%lowest : f32) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  %m = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%s : tensor<8x8xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.maximumf %o, %a : f32
    linalg.yield %0 : f32
  } -> tensor<8xf32>
  %g = tensor.empty() : tensor<8x8xf32>
  %d = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%s, %m : tensor<8x8xf32>, tensor<8xf32>) outs(%g : tensor<8x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %0 = arith.subf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<8x8xf32>
  %w = tensor.expand_shape %d [[0, 1], [2]] output_shape [2, 4, 8] : tensor<8x8xf32> into tensor<2x4x8xf32>
  %n = tensor.empty() : tensor<2x4x5xf32>
  %z = linalg.fill ins(%zero : f32) outs(%n : tensor<2x4x5xf32>) -> tensor<2x4x5xf32>
  %r = linalg.generic {indexing_maps = [#left, #right, #out],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%w, %v : tensor<2x4x8xf32>, tensor<2x8x5xf32>) outs(%z : tensor<2x4x5xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %0 = arith.addf %o, %p : f32
    linalg.yield %0 : f32
  } -> tensor<2x4x5xf32>
  return %r : tensor<2x4x5xf32>
}

// -----

// split-before-slicing: heads are slices of one tensor of heads.
// CHECK-LABEL: func.func @heads
// CHECK: %[[HEADS:.*]] = tensor.expand_shape {{.*}} : tensor<4x24xf32> into tensor<4x6x4xf32>
// CHECK: tensor.extract_slice %[[HEADS]][0, 2, 0] [4, 2, 4]
// CHECK: tensor.extract_slice %[[HEADS]][0, 4, 0] [4, 2, 4]
func.func @heads(%x: tensor<4x24xf32>) -> (tensor<4x2x4xf32>, tensor<4x2x4xf32>) {
  %0 = tensor.extract_slice %x[0, 8] [4, 8] [1, 1] : tensor<4x24xf32> to tensor<4x8xf32>
  %1 = tensor.expand_shape %0 [[0], [1, 2]] output_shape [4, 2, 4] : tensor<4x8xf32> into tensor<4x2x4xf32>
  %2 = tensor.extract_slice %x[0, 16] [4, 8] [1, 1] : tensor<4x24xf32> to tensor<4x8xf32>
  %3 = tensor.expand_shape %2 [[0], [1, 2]] output_shape [4, 2, 4] : tensor<4x8xf32> into tensor<4x2x4xf32>
  return %1, %3 : tensor<4x2x4xf32>, tensor<4x2x4xf32>
}

// -----

// start-products-from-zero: a bias is an addition.
// CHECK-LABEL: func.func @bias
// CHECK: linalg.fill
// CHECK: linalg.matmul
// CHECK: arith.addf
func.func @bias(%a: tensor<4x8xf32>, %b: tensor<8x16xf32>, %c: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %0 = linalg.matmul ins(%a, %b : tensor<4x8xf32>, tensor<8x16xf32>) outs(%c : tensor<4x16xf32>) -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}

// -----

// slice-unit-windows: what the only window does not read.
// CHECK-LABEL: func.func @window
// CHECK: tensor.extract_slice
func.func @window(%a: tensor<1x2x3xf32>, %w: tensor<2xf32>) -> tensor<1x2x1xf32> {
  %low = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<1x2x1xf32>
  %f = linalg.fill ins(%low : f32) outs(%e : tensor<1x2x1xf32>) -> tensor<1x2x1xf32>
  %0 = linalg.pooling_ncw_max {dilations = dense<1> : tensor<1xi64>, strides = dense<2> : tensor<1xi64>}
      ins(%a, %w : tensor<1x2x3xf32>, tensor<2xf32>) outs(%f : tensor<1x2x1xf32>) -> tensor<1x2x1xf32>
  return %0 : tensor<1x2x1xf32>
}

// -----

// convolutions-to-channels-last: a convolution between two transposes.
// CHECK-LABEL: func.func @channels
// CHECK: linalg.conv_2d_nhwc_hwcf
func.func @channels(%a: tensor<1x18x18x8xf32>, %w: tensor<16x8x3x3xf32>) -> tensor<1x16x16x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x8x18x18xf32>
  %x = linalg.transpose ins(%a : tensor<1x18x18x8xf32>) outs(%e : tensor<1x8x18x18xf32>) permutation = [0, 3, 1, 2]
  %f = tensor.empty() : tensor<1x16x16x16xf32>
  %g = linalg.fill ins(%zero : f32) outs(%f : tensor<1x16x16x16xf32>) -> tensor<1x16x16x16xf32>
  %y = linalg.conv_2d_nchw_fchw {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
      ins(%x, %w : tensor<1x8x18x18xf32>, tensor<16x8x3x3xf32>) outs(%g : tensor<1x16x16x16xf32>) -> tensor<1x16x16x16xf32>
  %h = tensor.empty() : tensor<1x16x16x16xf32>
  %r = linalg.transpose ins(%y : tensor<1x16x16x16xf32>) outs(%h : tensor<1x16x16x16xf32>) permutation = [0, 2, 3, 1]
  return %r : tensor<1x16x16x16xf32>
}

// -----

#id = affine_map<(i) -> (i)>

// copy-cheap-producers: each reader of an array of open size negates for itself.
// CHECK-LABEL: func.func @cheap
// CHECK: arith.negf
// CHECK-NEXT: math.exp
// CHECK: arith.negf
// CHECK-NEXT: math.sqrt
func.func @cheap(%a: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
  %zero = arith.constant 0 : index
  %n = tensor.dim %a, %zero : tensor<?xf32>
  %e = tensor.empty(%n) : tensor<?xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%a : tensor<?xf32>) outs(%e : tensor<?xf32>) {
  ^bb0(%x: f32, %o: f32):
    %s = arith.negf %x : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%0 : tensor<?xf32>) outs(%e : tensor<?xf32>) {
  ^bb0(%x: f32, %o: f32):
    %s = math.exp %x : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  %2 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%0 : tensor<?xf32>) outs(%e : tensor<?xf32>) {
  ^bb0(%x: f32, %o: f32):
    %s = math.sqrt %x : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  return %1, %2 : tensor<?xf32>, tensor<?xf32>
}

// -----

// copy-cheap-producers: one value of all elements is never stored, however many read it.
// CHECK-LABEL: func.func @one_value
// CHECK: linalg.generic
// CHECK-NEXT: ^bb0
// CHECK-NEXT: arith.mulf %{{.*}}, %[[VALUE:.*]] : f32
// CHECK: math.exp
// CHECK-NEXT: arith.mulf %{{.*}}, %[[VALUE]] : f32
func.func @one_value(%a: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
  %c0 = arith.constant 0 : index
  %cst = arith.constant dense<2.5> : tensor<f32>
  %n = tensor.dim %a, %c0 : tensor<?xf32>
  %empty = tensor.empty(%n) : tensor<?xf32>
  %value = linalg.generic {indexing_maps = [affine_map<(d0) -> ()>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%cst : tensor<f32>) outs(%empty : tensor<?xf32>) {
  ^bb0(%x: f32, %y: f32):
    linalg.yield %x : f32
  } -> tensor<?xf32>
  %x = arith.mulf %a, %value : tensor<?xf32>
  %e = math.exp %a : tensor<?xf32>
  %y = arith.mulf %e, %value : tensor<?xf32>
  return %x, %y : tensor<?xf32>, tensor<?xf32>
}

// -----

// cancel-reshapes: a view to (n·m, 12) that is split again into (n, m, 3, 4) only splits the last axis.
// CHECK-LABEL: func.func @viewed
// CHECK-NOT: tensor.collapse_shape
// CHECK: tensor.expand_shape %{{.*}} {{\[\[}}0], [1], [2, 3]]
func.func @viewed(%a: tensor<?x?x12xf32>) -> tensor<?x?x3x4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %a, %c0 : tensor<?x?x12xf32>
  %m = tensor.dim %a, %c1 : tensor<?x?x12xf32>
  %rows = tensor.collapse_shape %a [[0, 1], [2]] : tensor<?x?x12xf32> into tensor<?x12xf32>
  %heads = tensor.expand_shape %rows [[0, 1], [2, 3]] output_shape [%n, %m, 3, 4] : tensor<?x12xf32> into tensor<?x?x3x4xf32>
  return %heads : tensor<?x?x3x4xf32>
}

// -----

// Other sizes are no view back.
// CHECK-LABEL: func.func @other_view
// CHECK: tensor.collapse_shape
// CHECK: tensor.expand_shape
func.func @other_view(%a: tensor<?x?x12xf32>) -> tensor<?x?x12xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %a, %c0 : tensor<?x?x12xf32>
  %m = tensor.dim %a, %c1 : tensor<?x?x12xf32>
  %rows = tensor.collapse_shape %a [[0, 1], [2]] : tensor<?x?x12xf32> into tensor<?x12xf32>
  %back = tensor.expand_shape %rows [[0, 1], [2]] output_shape [%m, %n, 12] : tensor<?x12xf32> into tensor<?x?x12xf32>
  return %back : tensor<?x?x12xf32>
}

// -----

// hoist-invariants: what no iteration changes is computed before the loop, its initial value stays.
// CHECK-LABEL: func.func @invariant
// CHECK: %[[TRANSPOSED:.*]] = linalg.generic
// CHECK: scf.for
// CHECK: linalg.fill
// CHECK: linalg.matmul ins(%{{.*}}, %[[TRANSPOSED]] :
#transposed = affine_map<(d0, d1) -> (d1, d0)>
#identity = affine_map<(d0, d1) -> (d0, d1)>
func.func @invariant(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>, %n: index) -> tensor<4x4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %y = scf.for %i = %c0 to %n step %c1 iter_args(%carried = %x) -> (tensor<4x4xf32>) {
    %0 = tensor.empty() : tensor<4x4xf32>
    %1 = linalg.generic {indexing_maps = [#transposed, #identity], iterator_types = ["parallel", "parallel"]}
        ins(%w : tensor<4x4xf32>) outs(%0 : tensor<4x4xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<4x4xf32>
    %2 = linalg.fill ins(%zero : f32) outs(%0 : tensor<4x4xf32>) -> tensor<4x4xf32>
    %3 = linalg.matmul ins(%carried, %1 : tensor<4x4xf32>, tensor<4x4xf32>) outs(%2 : tensor<4x4xf32>) -> tensor<4x4xf32>
    scf.yield %3 : tensor<4x4xf32>
  }
  return %y : tensor<4x4xf32>
}

// -----

// widen-in-products: a product reads bf16, in place of copies that are widened.
#widened = affine_map<(i, j) -> (i, j)>
// CHECK-LABEL: func.func @widened_copies
// CHECK: linalg.matmul ins(%{{.*}}, %{{.*}} : tensor<4x8xbf16>, tensor<8x4xbf16>)
func.func @widened_copies(%x: tensor<4x8xbf16>, %w: tensor<8x4xbf16>) -> tensor<4x4xf32> {
  %zero = arith.constant 0.0 : f32
  %ex = tensor.empty() : tensor<4x8xf32>
  %wide_x = linalg.generic {indexing_maps = [#widened, #widened], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x8xbf16>) outs(%ex : tensor<4x8xf32>) {
  ^bb0(%a: bf16, %o: f32):
    %wide = arith.extf %a : bf16 to f32
    linalg.yield %wide : f32
  } -> tensor<4x8xf32>
  %ew = tensor.empty() : tensor<8x4xf32>
  %wide_w = linalg.generic {indexing_maps = [#widened, #widened], iterator_types = ["parallel", "parallel"]}
      ins(%w : tensor<8x4xbf16>) outs(%ew : tensor<8x4xf32>) {
  ^bb0(%a: bf16, %o: f32):
    %wide = arith.extf %a : bf16 to f32
    linalg.yield %wide : f32
  } -> tensor<8x4xf32>
  %e = tensor.empty() : tensor<4x4xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = linalg.matmul ins(%wide_x, %wide_w : tensor<4x8xf32>, tensor<8x4xf32>) outs(%zeros : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}

// -----

// flatten-batches: a batch times a repeated matrix is a product whose columns stay whole.
#repeated_matrix = affine_map<(b, k, n) -> (k, n)>
#id_of_three = affine_map<(b, k, n) -> (b, k, n)>
#last_of_three = affine_map<(b, k, n) -> (n)>
// CHECK-LABEL: func.func @repeated_weight
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<2x4x8xf32>, tensor<8x6xf32>)
// CHECK: tensor.expand_shape
func.func @repeated_weight(%x: tensor<2x4x8xf32>, %w: tensor<8x6xf32>, %bias: tensor<6xf32>) -> tensor<2x3x4x2xf32> {
  %zero = arith.constant 0.0 : f32
  %ew = tensor.empty() : tensor<2x8x6xf32>
  %repeated = linalg.generic {indexing_maps = [#repeated_matrix, #id_of_three], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%w : tensor<8x6xf32>) outs(%ew : tensor<2x8x6xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<2x8x6xf32>
  %e = tensor.empty() : tensor<2x4x6xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %p = linalg.batch_matmul ins(%x, %repeated : tensor<2x4x8xf32>, tensor<2x8x6xf32>) outs(%zeros : tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %s = linalg.generic {indexing_maps = [#id_of_three, #last_of_three, #id_of_three], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%p, %bias : tensor<2x4x6xf32>, tensor<6xf32>) outs(%e : tensor<2x4x6xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %sum = arith.addf %a, %b : f32
    linalg.yield %sum : f32
  } -> tensor<2x4x6xf32>
  %r = tensor.expand_shape %s [[0], [1], [2, 3]] output_shape [2, 4, 3, 2] : tensor<2x4x6xf32> into tensor<2x4x3x2xf32>
  %et = tensor.empty() : tensor<2x3x4x2xf32>
  %t = linalg.transpose ins(%r : tensor<2x4x3x2xf32>) outs(%et : tensor<2x3x4x2xf32>) permutation = [0, 2, 1, 3]
  return %t : tensor<2x3x4x2xf32>
}
