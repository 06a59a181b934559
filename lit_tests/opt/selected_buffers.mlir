// A branch whose result is one of several buffers yields which one, as a number; uses stand in branches on it.
// RUN: mlirtri-opt --selects-to-branches %s | FileCheck %s

// CHECK-LABEL: func.func @inner_select
// CHECK-SAME: (%[[FIRST:.*]]: i1, %[[SECOND:.*]]: i1, %[[X:.*]]: memref<3xi64>, %[[Y:.*]]: memref<3xi64>, %[[OUT:.*]]: memref<3xi64>)
// CHECK: %[[MADE:.*]] = memref.alloca
// CHECK: %[[WHICH:.*]] = scf.if %[[FIRST]] -> (i64)
// CHECK: memref.store {{.*}}, %[[MADE]]
// CHECK: arith.select %[[SECOND]], {{.*}} : i64
// CHECK-NOT: arith.select {{.*}} : memref
// CHECK: arith.cmpi eq, %[[WHICH]]
// CHECK: scf.if
// CHECK: memref.copy {{.*}}, %[[OUT]]
// CHECK: } else {
// CHECK: memref.copy {{.*}}, %[[OUT]]
func.func @inner_select(%first: i1, %second: i1, %x: memref<3xi64>, %y: memref<3xi64>, %out: memref<3xi64>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : i64
  %chosen = scf.if %first -> (memref<3xi64>) {
    %made = memref.alloca() : memref<3xi64>
    memref.store %one, %made[%zero] : memref<3xi64>
    %inner = arith.select %second, %made, %y : memref<3xi64>
    scf.yield %inner : memref<3xi64>
  } else {
    memref.store %one, %x[%zero] : memref<3xi64>
    scf.yield %x : memref<3xi64>
  }
  memref.copy %chosen, %out : memref<3xi64> to memref<3xi64>
  return
}

// The last select uses the first, and is split first.
// CHECK-LABEL: func.func @selects_of_selects
// CHECK-NOT: arith.select
// CHECK-COUNT-3: memref.copy
func.func @selects_of_selects(%a: i1, %b: i1, %x: memref<3xi64>, %y: memref<3xi64>, %out: memref<3xi64>) {
  %inner = arith.select %a, %x, %y : memref<3xi64>
  %outer = arith.select %b, %inner, %x : memref<3xi64>
  memref.copy %outer, %out : memref<3xi64> to memref<3xi64>
  return
}
