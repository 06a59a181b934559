# Passes of stage gpu that few kernels need. `mlirtri update-checks` writes the lines again where text changed on purpose.
# RUN: mlirtri emit "%s::*" --target=spirv --stage=gpu | FileCheck %s
import mlirtri as mt

M, K = mt.dyn["M"], mt.dyn["K"]


# loops-in-chunks: threads sum a chunk each.
@mt.jit
def total(a: mt.Tensor[[100000], mt.float32]):
    return a.sum()


# flat-buffers: arrays of run-time sizes have one axis.
@mt.jit
def scaled(a: mt.Tensor[[M, K], mt.float32]):
    return a * 2


# fold-memref-alias-ops: views are read where they lie.
@mt.jit
def halves(a: mt.Tensor[[8, 16], mt.float32]):
    return a[:, ::2] + a.reshape(16, 8)[8:]


# >>> mlirtri update-checks CHECK --filter='memref|launch_func|gpu.func|scf\.'
# CHECK-LABEL: ===== total: gpu =====
# CHECK-LABEL:   func.func @total(
# CHECK-SAME:   %[[A:[^ ,:)]+]]: memref<100000xf32>, %[[ARG1:[^ ,:)]+]]: memref<f32>) {
# CHECK:     %[[ALLOCA:[^ ,:)]+]] = memref.alloca() {alignment = 64 : i64} : memref<f64>
# CHECK-NEXT:     %[[ALLOC:[^ ,:)]+]] = memref.alloc() : memref<64xf64>
# CHECK-NEXT:     gpu.launch_func  @total_kernel::@total_kernel blocks in (%[[C1:[^ ,:)]+]], %[[C1]], %[[C1]]) threads in (%[[C64:[^ ,:)]+]], %[[C1]], %[[C1]])  args(%[[ALLOCA]] : memref<f64>)
# CHECK-NEXT:     gpu.launch_func  @total_kernel_0::@total_kernel blocks in (%[[C1]], %[[C1]], %[[C1]]) threads in (%[[C64]], %[[C1]], %[[C1]])  args(%[[A]] : memref<100000xf32>, %[[ALLOC]] : memref<64xf64>)
# CHECK-NEXT:     gpu.launch_func  @total_kernel_1::@total_kernel blocks in (%[[C1]], %[[C1]], %[[C1]]) threads in (%[[C64]], %[[C1]], %[[C1]])  args(%[[ALLOC]] : memref<64xf64>, %[[ALLOCA]] : memref<f64>)
# CHECK-NEXT:     memref.dealloc %[[ALLOC]] : memref<64xf64>
# CHECK-NEXT:     gpu.launch_func  @total_kernel_2::@total_kernel blocks in (%[[C1]], %[[C1]], %[[C1]]) threads in (%[[C64]], %[[C1]], %[[C1]])  args(%[[ALLOCA]] : memref<f64>, %[[ARG1]] : memref<f32>)
# CHECK:     gpu.func @total_kernel(%[[ARG0:[^ ,:)]+]]: memref<f64>) kernel attributes {known_block_size = array<i32: 64, 1, 1>, known_grid_size = array<i32: 1, 1, 1>, spirv.entry_point_abi = #spirv.entry_point_abi<workgroup_size = [64, 1, 1]>} {
# CHECK:       scf.if %[[V0:[^ ,:)]+]] {
# CHECK-NEXT:         memref.store %[[CST:[^ ,:)]+]], %[[ARG0]][] : memref<f64>
# CHECK:     gpu.func @total_kernel(%[[ARG0]]: memref<100000xf32>, %[[ARG1]]: memref<64xf64>) kernel attributes {known_block_size = array<i32: 64, 1, 1>, known_grid_size = array<i32: 1, 1, 1>, spirv.entry_point_abi = #spirv.entry_point_abi<workgroup_size = [64, 1, 1]>} {
# CHECK:       %[[ALLOCA:[^ ,:)]+]] = memref.alloca() : memref<f64, #spirv.storage_class<Function>>
# CHECK-NEXT:       memref.store %[[CST]], %[[ALLOCA]][] : memref<f64, #spirv.storage_class<Function>>
# CHECK:       scf.for %[[ARG2:[^ ,:)]+]] = %[[V0]] to %[[V2:[^ ,:)]+]] step %[[C1]] {
# CHECK-NEXT:         %[[V4:[^ ,:)]+]] = memref.load %[[ARG0]][%[[ARG2]]] : memref<100000xf32>
# CHECK-NEXT:         %[[V5:[^ ,:)]+]] = memref.load %[[ALLOCA]][] : memref<f64, #spirv.storage_class<Function>>
# CHECK:         memref.store %[[V7:[^ ,:)]+]], %[[ALLOCA]][] : memref<f64, #spirv.storage_class<Function>>
# CHECK:       %[[V3:[^ ,:)]+]] = memref.load %[[ALLOCA]][] : memref<f64, #spirv.storage_class<Function>>
# CHECK-NEXT:       memref.store %[[V3]], %[[ARG1]][%[[THREAD_ID_X:[^ ,:)]+]]] : memref<64xf64>
# CHECK:     gpu.func @total_kernel(%[[ARG0]]: memref<64xf64>, %[[ARG1]]: memref<f64>) kernel attributes {known_block_size = array<i32: 64, 1, 1>, known_grid_size = array<i32: 1, 1, 1>, spirv.entry_point_abi = #spirv.entry_point_abi<workgroup_size = [64, 1, 1]>} {
# CHECK:       scf.if %[[V0]] {
# CHECK-NEXT:         scf.for %[[ARG2:[^ ,:)]+]] = %[[C0:[^ ,:)]+]] to %[[C64]] step %[[C1]] {
# CHECK-NEXT:           %[[V1:[^ ,:)]+]] = memref.load %[[ARG0]][%[[ARG2]]] : memref<64xf64>
# CHECK-NEXT:           %[[V2:[^ ,:)]+]] = memref.load %[[ARG1]][] : memref<f64>
# CHECK:           memref.store %[[V3]], %[[ARG1]][] : memref<f64>
# CHECK:     gpu.func @total_kernel(%[[ARG0]]: memref<f64>, %[[ARG1]]: memref<f32>) kernel attributes {known_block_size = array<i32: 64, 1, 1>, known_grid_size = array<i32: 1, 1, 1>, spirv.entry_point_abi = #spirv.entry_point_abi<workgroup_size = [64, 1, 1]>} {
# CHECK:       scf.if %[[V0]] {
# CHECK-NEXT:         %[[V1:[^ ,:)]+]] = memref.load %[[ARG0]][] : memref<f64>
# CHECK:         memref.store %[[V2]], %[[ARG1]][] : memref<f32>
# CHECK-LABEL: ===== scaled: gpu =====
# CHECK-LABEL:   func.func @scaled(
# CHECK-SAME:   %[[A:[^ ,:)]+]]: memref<?xf32>, %[[ARG1:[^ ,:)]+]]: memref<?xf32>, %[[ARG2:[^ ,:)]+]]: index, %[[ARG3:[^ ,:)]+]]: index, %[[ARG4:[^ ,:)]+]]: index, %[[ARG5:[^ ,:)]+]]: index) attributes {mlirtri.guarded} {
# CHECK:     gpu.launch_func  @scaled_kernel::@scaled_kernel blocks in (%[[V7:[^ ,:)]+]], %[[V14:[^ ,:)]+]], %[[C1:[^ ,:)]+]]) threads in (%[[C64:[^ ,:)]+]], %[[C1]], %[[C1]])  args(%[[ARG3]] : index, %[[ARG2]] : index, %[[A]] : memref<?xf32>, %[[ARG5]] : index, %[[ARG1]] : memref<?xf32>)
# CHECK:     gpu.func @scaled_kernel(%[[ARG0:[^ ,:)]+]]: index, %[[ARG1]]: index, %[[ARG2]]: memref<?xf32>, %[[ARG3]]: index, %[[ARG4]]: memref<?xf32>) kernel attributes {known_block_size = array<i32: 64, 1, 1>, spirv.entry_point_abi = #spirv.entry_point_abi<workgroup_size = [64, 1, 1]>} {
# CHECK:       scf.if %[[V4:[^ ,:)]+]] {
# CHECK:         %[[V7:[^ ,:)]+]] = memref.load %[[ARG2]][%[[V6:[^ ,:)]+]]] : memref<?xf32>
# CHECK:         memref.store %[[V8:[^ ,:)]+]], %[[ARG4]][%[[V10:[^ ,:)]+]]] : memref<?xf32>
# CHECK-LABEL: ===== halves: gpu =====
# CHECK-LABEL:   func.func @halves(
# CHECK-SAME:   %[[A:[^ ,:)]+]]: memref<8x16xf32>, %[[ARG1:[^ ,:)]+]]: memref<8x8xf32>) {
# CHECK:     gpu.launch_func  @halves_kernel::@halves_kernel blocks in (%[[C1:[^ ,:)]+]], %[[C8:[^ ,:)]+]], %[[C1]]) threads in (%[[C64:[^ ,:)]+]], %[[C1]], %[[C1]])  args(%[[A]] : memref<8x16xf32>, %[[ARG1]] : memref<8x8xf32>)
# CHECK:     gpu.func @halves_kernel(%[[ARG0:[^ ,:)]+]]: memref<8x16xf32>, %[[ARG1]]: memref<8x8xf32>) kernel attributes {known_block_size = array<i32: 64, 1, 1>, known_grid_size = array<i32: 1, 8, 1>, spirv.entry_point_abi = #spirv.entry_point_abi<workgroup_size = [64, 1, 1]>} {
# CHECK:       scf.if %[[V2:[^ ,:)]+]] {
# CHECK:         %[[V4:[^ ,:)]+]] = memref.load %[[ARG0]][%[[BLOCK_ID_Y:[^ ,:)]+]], %[[V3:[^ ,:)]+]]] : memref<8x16xf32>
# CHECK:         %[[V19:[^ ,:)]+]] = memref.load %[[ARG0]][%[[V14:[^ ,:)]+]], %[[V18:[^ ,:)]+]]] : memref<8x16xf32>
# CHECK:         memref.store %[[V20:[^ ,:)]+]], %[[ARG1]][%[[BLOCK_ID_Y]], %[[THREAD_ID_X:[^ ,:)]+]]] : memref<8x8xf32>
# <<< mlirtri update-checks CHECK
