// Passes of stage llvmdialect that few programs need: each function changes if one of its passes is dropped.
// RUN: env MLIRTRI_NUM_THREADS=2 mlirtri-opt --fused-to-bufferized --bufferized-to-llvmdialect --split-input-file %s > %t
// RUN: FileCheck %s --input-file %t
// RUN: not grep -E 'unrealized_conversion|[^#a-z_](arith|math|memref|complex|index|ub|vector|scf|cf|affine|linalg)[.]' %t

#v = affine_map<(i) -> (i)>

// arith-expand: LLVM has no division that rounds up or down. convert-math-to-funcs: integer powers are a function.
// CHECK-LABEL: llvm.func @mlirtri_integers
func.func @integers(%a: tensor<4xi32>, %b: tensor<4xi32>) -> tensor<4xi32> {
  %e = tensor.empty() : tensor<4xi32>
  %0 = linalg.generic {indexing_maps = [#v, #v, #v], iterator_types = ["parallel"]}
      ins(%a, %b : tensor<4xi32>, tensor<4xi32>) outs(%e : tensor<4xi32>) {
  ^bb0(%x: i32, %y: i32, %o: i32):
    %1 = arith.floordivsi %x, %y : i32
    %2 = math.ipowi %1, %y : i32
    linalg.yield %2 : i32
  } -> tensor<4xi32>
  return %0 : tensor<4xi32>
}

// -----

// convert-math-to-libm: what has no vector code of ours. math-expand-ops: nor has the C library rsqrt.
#v = affine_map<(i) -> (i)>
// CHECK-LABEL: llvm.func @mlirtri_functions
// CHECK: %[[ROOT:.*]] = llvm.call @sqrtf(
// CHECK: %[[INVERSE:.*]] = llvm.fdiv %{{.*}}, %[[ROOT]]
// CHECK: llvm.intr.fabs(%[[INVERSE]])
func.func @functions(%a: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [#v, #v], iterator_types = ["parallel"]}
      ins(%a : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%x: f32, %o: f32):
    %1 = math.asinh %x : f32
    %2 = math.rsqrt %1 : f32
    %3 = math.absf %2 : f32
    linalg.yield %3 : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// math-extend-to-supported-types, narrow-floats, narrow-memory, rounding-to-halves: fp16 and bf16.
#v = affine_map<(i) -> (i)>
// CHECK-LABEL: llvm.func @mlirtri_halves
// CHECK: %[[WIDE:.*]] = llvm.fpext %{{.*}} : f16 to f32
// CHECK: llvm.intr.sqrt(%[[WIDE]]) : (f32) -> f32
// CHECK: llvm.load %{{.*}} : !llvm.ptr -> i16
// CHECK: llvm.fadd %[[SUMMAND:.*]], %[[SUMMAND]] : f32
// CHECK: llvm.store %{{.*}}, %{{.*}} : i16, !llvm.ptr
// CHECK: llvm.func weak_odr @__truncdfhf2
func.func @halves(%a: tensor<4xf16>, %b: tensor<4xbf16>, %c: tensor<4xf64>) -> (tensor<4xf16>, tensor<4xbf16>, tensor<4xf16>) {
  %e = tensor.empty() : tensor<4xf16>
  %g = tensor.empty() : tensor<4xbf16>
  %0 = linalg.sqrt ins(%a : tensor<4xf16>) outs(%e : tensor<4xf16>) -> tensor<4xf16>
  %1 = linalg.add ins(%b, %b : tensor<4xbf16>, tensor<4xbf16>) outs(%g : tensor<4xbf16>) -> tensor<4xbf16>
  %2 = linalg.generic {indexing_maps = [#v, #v], iterator_types = ["parallel"]}
      ins(%c : tensor<4xf64>) outs(%e : tensor<4xf16>) {
  ^bb0(%x: f64, %o: f16):
    %3 = arith.truncf %x : f64 to f16
    linalg.yield %3 : f16
  } -> tensor<4xf16>
  return %0, %1, %2 : tensor<4xf16>, tensor<4xbf16>, tensor<4xf16>
}

// -----

// convert-complex-to-standard, convert-complex-to-llvm: arithmetic on two parts, and pairs.
#v = affine_map<(i) -> (i)>
// CHECK-LABEL: llvm.func @mlirtri_complex
func.func @complex(%a: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
  %e = tensor.empty() : tensor<4xcomplex<f32>>
  %0 = linalg.generic {indexing_maps = [#v, #v], iterator_types = ["parallel"]}
      ins(%a : tensor<4xcomplex<f32>>) outs(%e : tensor<4xcomplex<f32>>) {
  ^bb0(%x: complex<f32>, %o: complex<f32>):
    %1 = complex.mul %x, %x : complex<f32>
    %2 = complex.log1p %1 : complex<f32>
    linalg.yield %2 : complex<f32>
  } -> tensor<4xcomplex<f32>>
  return %0 : tensor<4xcomplex<f32>>
}

// -----

// sizes-to-arguments: open sizes stand behind the pointers. failed-allocations: no memory is a status.
// convert-scf-to-openmp, convert-openmp-to-llvm, inline-scopes: loops that threads share. convert-index-to-llvm, convert-ub-to-llvm: what sizes bring.
// CHECK-LABEL: llvm.func @mlirtri_open
// CHECK-SAME: (%{{.*}}: !llvm.ptr {llvm.noalias}, %{{.*}}: !llvm.ptr {llvm.noalias}, %{{.*}}: i64
// CHECK-SAME: -> i64
// CHECK: %[[MEMORY:.*]] = llvm.call @malloc(
// CHECK: llvm.icmp "eq" %[[MEMORY]]
// CHECK: omp.parallel num_threads(
func.func @open(%a: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %a, %c0 : tensor<?x4xf32>
  %m = index.add %n, %n
  %i = arith.index_cast %m : index to i64
  %f = arith.sitofp %i : i64 to f32
  %p = ub.poison : f32
  %q = arith.addf %f, %p : f32
  %e = tensor.empty(%n) : tensor<?x4xf32>
  %s = linalg.fill ins(%f : f32) outs(%e : tensor<?x4xf32>) -> tensor<?x4xf32>
  %0 = linalg.add ins(%a, %s : tensor<?x4xf32>, tensor<?x4xf32>) outs(%e : tensor<?x4xf32>) -> tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}

// -----

// tile-contractions, convert-vector-to-llvm: a product in tiles.
// CHECK-LABEL: llvm.func @mlirtri_product
// CHECK: llvm.load %{{.*}} -> vector<[[WIDTH:[0-9]+]]xf32>
// CHECK: llvm.intr.fmuladd({{.*}} -> vector<[[WIDTH]]xf32>
func.func @product(%a: tensor<64x64xf32>, %b: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64x64xf32>) -> tensor<64x64xf32>
  %0 = linalg.matmul ins(%a, %b : tensor<64x64xf32>, tensor<64x64xf32>) outs(%f : tensor<64x64xf32>) -> tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
}

// -----

// chunks-for-threads, scf-forall-to-parallel: large arrays in chunks. transpose-in-registers: squares are transposed there.
// CHECK-LABEL: llvm.func @mlirtri_transposed
// CHECK: omp.parallel num_threads(
// CHECK: llvm.load %{{.*}} -> vector<{{[0-9]+}}xf32>
// CHECK: llvm.shufflevector
func.func @transposed(%a: tensor<256x256xf32>) -> tensor<256x256xf32> {
  %e = tensor.empty() : tensor<256x256xf32>
  %0 = linalg.transpose ins(%a : tensor<256x256xf32>) outs(%e : tensor<256x256xf32>) permutation = [1, 0]
  return %0 : tensor<256x256xf32>
}
