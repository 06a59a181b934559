# A pass that is dropped changes a line below. `mlirtri update-checks` writes them again where text changed on purpose.
# RUN: mlirtri emit "%s::*" --stage=llvmdialect --pipeline=mlir | FileCheck %s
import numpy as np

import mlirtri as mt

Row = mt.Tensor[[6], mt.float32]
Square = mt.Tensor[[3, 3], mt.float32]


@mt.jit
def product(a: Square, b: Square):
    return a @ b.T


@mt.jit
def functions(a: Row):
    return np.exp(a) + np.sin(a) * np.floor(a)


@mt.jit
def divided(a: mt.Tensor[[3], mt.int32]):
    return a // 3


@mt.jit
def halves(a: mt.Tensor[[4], mt.float16]):
    return np.sqrt(a + a)


@mt.jit
def rotated(a: mt.Tensor[[3], mt.complex64]):
    return a * a


@mt.jit
def largest(a: mt.Tensor[[2, 3], mt.float32]):
    return np.argmax(a, axis=1)


@mt.jit
def every_second(a: Row):
    b = a.copy()
    b[::2] = a[1::2]
    return b


@mt.jit
def halvings(n: mt.int64):
    count = 0
    while n > 1:
        n = n // 2
        count += 1
    return count


# >>> mlirtri update-checks CHECK --filter='llvm\.(func|call|intr|cond_br|fmul|fadd|sdiv|select|alloca|shufflevector|mlir.addressof|store)'
# CHECK-LABEL: ===== product: llvmdialect =====
# CHECK-LABEL:   llvm.func @mlirtri_product(
# CHECK-SAME:   %[[A:[^ ,:)]+]]: !llvm.ptr {llvm.noalias}, %[[B:[^ ,:)]+]]: !llvm.ptr {llvm.noalias}, %[[ARG2:[^ ,:)]+]]: !llvm.ptr {llvm.noalias}) attributes {no_inline} {
# CHECK:     %[[V5:[^ ,:)]+]] = llvm.alloca %[[V0:[^ ,:)]+]] x f32 {alignment = 64 : i64} : (i64) -> !llvm.ptr
# CHECK:     llvm.cond_br %[[V7:[^ ,:)]+]], ^bb2, ^bb6
# CHECK:     llvm.cond_br %[[V9:[^ ,:)]+]], ^bb4, ^bb5
# CHECK:     llvm.store %[[V13:[^ ,:)]+]], %[[V16:[^ ,:)]+]] : f32, !llvm.ptr
# CHECK:     llvm.cond_br %[[V20:[^ ,:)]+]], ^bb8, ^bb12
# CHECK:     llvm.cond_br %[[V22:[^ ,:)]+]], ^bb10, ^bb11
# CHECK:     llvm.store %[[V1:[^ ,:)]+]], %[[V25:[^ ,:)]+]] : f32, !llvm.ptr
# CHECK:     llvm.cond_br %[[V29:[^ ,:)]+]], ^bb14, ^bb21
# CHECK:     llvm.cond_br %[[V31:[^ ,:)]+]], ^bb16, ^bb20
# CHECK:     llvm.cond_br %[[V33:[^ ,:)]+]], ^bb18, ^bb19
# CHECK:     %[[V45:[^ ,:)]+]] = llvm.fmul %[[V37:[^ ,:)]+]], %[[V41:[^ ,:)]+]] {fastmathFlags = #llvm.fastmath<contract>} : f32
# CHECK-NEXT:     %[[V46:[^ ,:)]+]] = llvm.fadd %[[V44:[^ ,:)]+]], %[[V45]] {fastmathFlags = #llvm.fastmath<contract, reassoc>} : f32
# CHECK-NEXT:     llvm.store %[[V46]], %[[V43:[^ ,:)]+]] : f32, !llvm.ptr
# CHECK-LABEL: ===== functions: llvmdialect =====
# CHECK-LABEL:   llvm.func @mlirtri_functions(
# CHECK-SAME:   %[[A:[^ ,:)]+]]: !llvm.ptr {llvm.noalias}, %[[ARG1:[^ ,:)]+]]: !llvm.ptr {llvm.noalias}) attributes {no_inline} {
# CHECK-NEXT:     %[[V0:[^ ,:)]+]] = llvm.mlir.addressof @mlirtri_quarters_low : !llvm.ptr
# CHECK-NEXT:     %[[V1:[^ ,:)]+]] = llvm.mlir.addressof @mlirtri_quarters_high : !llvm.ptr
# CHECK:     llvm.cond_br %[[V51:[^ ,:)]+]], ^bb2, ^bb3
# CHECK:     %[[V54:[^ ,:)]+]] = llvm.intr.floor(%[[V53:[^ ,:)]+]]) : (f32) -> f32
# CHECK:     %[[V57:[^ ,:)]+]] = llvm.intr.fabs(%[[V56:[^ ,:)]+]]) : (f64) -> f64
# CHECK:     %[[V61:[^ ,:)]+]] = llvm.intr.smax(%[[V60:[^ ,:)]+]], %[[V5:[^ ,:)]+]]) : (i64, i64) -> i64
# CHECK-NEXT:     %[[V62:[^ ,:)]+]] = llvm.intr.smin(%[[V61]], %[[V6:[^ ,:)]+]]) : (i64, i64) -> i64
# CHECK:     %[[V73:[^ ,:)]+]] = llvm.intr.fma(%[[V66:[^ ,:)]+]], %[[V69:[^ ,:)]+]], %[[V9:[^ ,:)]+]]) : (f64, f64, f64) -> f64
# CHECK-NEXT:     %[[V74:[^ ,:)]+]] = llvm.intr.floor(%[[V73]]) : (f64) -> f64
# CHECK:     %[[V76:[^ ,:)]+]] = llvm.intr.fma(%[[V66]], %[[V69]], %[[V75:[^ ,:)]+]]) : (f64, f64, f64) -> f64
# CHECK-NEXT:     %[[V77:[^ ,:)]+]] = llvm.fmul %[[V66]], %[[V72:[^ ,:)]+]] : f64
# CHECK-NEXT:     %[[V78:[^ ,:)]+]] = llvm.fadd %[[V76]], %[[V77]] : f64
# CHECK-NEXT:     %[[V79:[^ ,:)]+]] = llvm.fmul %[[V78]], %[[V11:[^ ,:)]+]] : f64
# CHECK-NEXT:     %[[V80:[^ ,:)]+]] = llvm.fmul %[[V79]], %[[V79]] : f64
# CHECK-NEXT:     %[[V81:[^ ,:)]+]] = llvm.fmul %[[V79]], %[[V80]] : f64
# CHECK-NEXT:     %[[V82:[^ ,:)]+]] = llvm.intr.fma(%[[V12:[^ ,:)]+]], %[[V80]], %[[V13:[^ ,:)]+]]) : (f64, f64, f64) -> f64
# CHECK-NEXT:     %[[V83:[^ ,:)]+]] = llvm.intr.fma(%[[V82]], %[[V80]], %[[V14:[^ ,:)]+]]) : (f64, f64, f64) -> f64
# CHECK-NEXT:     %[[V84:[^ ,:)]+]] = llvm.intr.fma(%[[V83]], %[[V80]], %[[V15:[^ ,:)]+]]) : (f64, f64, f64) -> f64
# CHECK-NEXT:     %[[V85:[^ ,:)]+]] = llvm.intr.fma(%[[V84]], %[[V80]], %[[V16:[^ ,:)]+]]) : (f64, f64, f64) -> f64
# CHECK-NEXT:     %[[V86:[^ ,:)]+]] = llvm.intr.fma(%[[V85]], %[[V80]], %[[V17:[^ ,:)]+]]) : (f64, f64, f64) -> f64
# CHECK-NEXT:     %[[V87:[^ ,:)]+]] = llvm.intr.fma(%[[V86]], %[[V80]], %[[V18:[^ ,:)]+]]) : (f64, f64, f64) -> f64
# CHECK-NEXT:     %[[V88:[^ ,:)]+]] = llvm.intr.fma(%[[V81]], %[[V87]], %[[V79]]) : (f64, f64, f64) -> f64
# CHECK-NEXT:     %[[V89:[^ ,:)]+]] = llvm.fmul %[[V80]], %[[V80]] : f64
# CHECK-NEXT:     %[[V90:[^ ,:)]+]] = llvm.intr.fma(%[[V19:[^ ,:)]+]], %[[V80]], %[[V20:[^ ,:)]+]]) : (f64, f64, f64) -> f64
# CHECK-NEXT:     %[[V91:[^ ,:)]+]] = llvm.intr.fma(%[[V90]], %[[V80]], %[[V21:[^ ,:)]+]]) : (f64, f64, f64) -> f64
# CHECK-NEXT:     %[[V92:[^ ,:)]+]] = llvm.intr.fma(%[[V91]], %[[V80]], %[[V22:[^ ,:)]+]]) : (f64, f64, f64) -> f64
# CHECK-NEXT:     %[[V93:[^ ,:)]+]] = llvm.intr.fma(%[[V92]], %[[V80]], %[[V23:[^ ,:)]+]]) : (f64, f64, f64) -> f64
# CHECK-NEXT:     %[[V94:[^ ,:)]+]] = llvm.intr.fma(%[[V93]], %[[V80]], %[[V24:[^ ,:)]+]]) : (f64, f64, f64) -> f64
# CHECK-NEXT:     %[[V95:[^ ,:)]+]] = llvm.intr.fma(%[[V94]], %[[V80]], %[[V25:[^ ,:)]+]]) : (f64, f64, f64) -> f64
# CHECK-NEXT:     %[[V96:[^ ,:)]+]] = llvm.fmul %[[V89]], %[[V95]] : f64
# CHECK-NEXT:     %[[V97:[^ ,:)]+]] = llvm.intr.fma(%[[V80]], %[[V26:[^ ,:)]+]], %[[V27:[^ ,:)]+]]) : (f64, f64, f64) -> f64
# CHECK-NEXT:     %[[V98:[^ ,:)]+]] = llvm.fadd %[[V97]], %[[V96]] : f64
# CHECK:     %[[V102:[^ ,:)]+]] = llvm.select %[[V101:[^ ,:)]+]], %[[V98]], %[[V88]] : i1, f64
# CHECK:     %[[V105:[^ ,:)]+]] = llvm.fmul %[[V102]], %[[V30:[^ ,:)]+]] : f64
# CHECK-NEXT:     %[[V106:[^ ,:)]+]] = llvm.select %[[V104:[^ ,:)]+]], %[[V105]], %[[V102]] : i1, f64
# CHECK:     %[[V108:[^ ,:)]+]] = llvm.select %[[V55:[^ ,:)]+]], %[[V53]], %[[V107:[^ ,:)]+]] : i1, f32
# CHECK-NEXT:     %[[V109:[^ ,:)]+]] = llvm.fmul %[[V108]], %[[V54]] : f32
# CHECK-NEXT:     %[[V110:[^ ,:)]+]] = llvm.intr.fabs(%[[V53]]) : (f32) -> f32
# CHECK:     %[[V115:[^ ,:)]+]] = llvm.select %[[V114:[^ ,:)]+]], %[[V53]], %[[V33:[^ ,:)]+]] : i1, f32
# CHECK-NEXT:     %[[V116:[^ ,:)]+]] = llvm.select %[[V113:[^ ,:)]+]], %[[V115]], %[[V32:[^ ,:)]+]] : i1, f32
# CHECK-NEXT:     %[[V117:[^ ,:)]+]] = llvm.intr.fma(%[[V116]], %[[V36:[^ ,:)]+]], %[[V37:[^ ,:)]+]]) : (f32, f32, f32) -> f32
# CHECK-NEXT:     %[[V118:[^ ,:)]+]] = llvm.intr.floor(%[[V117]]) : (f32) -> f32
# CHECK-NEXT:     %[[V119:[^ ,:)]+]] = llvm.fmul %[[V118]], %[[V38:[^ ,:)]+]] : f32
# CHECK-NEXT:     %[[V120:[^ ,:)]+]] = llvm.intr.fma(%[[V119]], %[[V34:[^ ,:)]+]], %[[V116]]) : (f32, f32, f32) -> f32
# CHECK-NEXT:     %[[V121:[^ ,:)]+]] = llvm.intr.fma(%[[V119]], %[[V35:[^ ,:)]+]], %[[V120]]) : (f32, f32, f32) -> f32
# CHECK-NEXT:     %[[V122:[^ ,:)]+]] = llvm.intr.fma(%[[V39:[^ ,:)]+]], %[[V121]], %[[V40:[^ ,:)]+]]) : (f32, f32, f32) -> f32
# CHECK-NEXT:     %[[V123:[^ ,:)]+]] = llvm.intr.fma(%[[V122]], %[[V121]], %[[V41:[^ ,:)]+]]) : (f32, f32, f32) -> f32
# CHECK-NEXT:     %[[V124:[^ ,:)]+]] = llvm.intr.fma(%[[V123]], %[[V121]], %[[V42:[^ ,:)]+]]) : (f32, f32, f32) -> f32
# CHECK-NEXT:     %[[V125:[^ ,:)]+]] = llvm.intr.fma(%[[V124]], %[[V121]], %[[V43:[^ ,:)]+]]) : (f32, f32, f32) -> f32
# CHECK-NEXT:     %[[V126:[^ ,:)]+]] = llvm.intr.fma(%[[V125]], %[[V121]], %[[V37]]) : (f32, f32, f32) -> f32
# CHECK-NEXT:     %[[V127:[^ ,:)]+]] = llvm.fmul %[[V121]], %[[V121]] : f32
# CHECK-NEXT:     %[[V128:[^ ,:)]+]] = llvm.intr.fma(%[[V126]], %[[V127]], %[[V121]]) : (f32, f32, f32) -> f32
# CHECK-NEXT:     %[[V129:[^ ,:)]+]] = llvm.fadd %[[V128]], %[[V44:[^ ,:)]+]] : f32
# CHECK:     %[[V135:[^ ,:)]+]] = llvm.fmul %[[V129]], %[[V134:[^ ,:)]+]] : f32
# CHECK:     %[[V140:[^ ,:)]+]] = llvm.fmul %[[V135]], %[[V139:[^ ,:)]+]] : f32
# CHECK-NEXT:     %[[V141:[^ ,:)]+]] = llvm.select %[[V112:[^ ,:)]+]], %[[V53]], %[[V140]] : i1, f32
# CHECK-NEXT:     %[[V142:[^ ,:)]+]] = llvm.fadd %[[V141]], %[[V109]] : f32
# CHECK:     llvm.store %[[V142]], %[[V143:[^ ,:)]+]] : f32, !llvm.ptr
# CHECK-LABEL: ===== divided: llvmdialect =====
# CHECK-LABEL:   llvm.func @mlirtri_divided(
# CHECK-SAME:   %[[A:[^ ,:)]+]]: !llvm.ptr {llvm.noalias}, %[[A_0:[^ ,:)]+]]: !llvm.ptr {llvm.noalias}) attributes {no_inline} {
# CHECK:     llvm.cond_br %[[A_2:[^ ,:)]+]], ^bb2, ^bb3
# CHECK:     %[[V6:[^ ,:)]+]] = llvm.sdiv %[[A_4:[^ ,:)]+]], %[[V0:[^ ,:)]+]] : i32
# CHECK:     %[[V12:[^ ,:)]+]] = llvm.select %[[V10:[^ ,:)]+]], %[[V11:[^ ,:)]+]], %[[V6]] : i1, i32
# CHECK:     llvm.store %[[V12]], %[[A_5:[^ ,:)]+]] : i32, !llvm.ptr
# CHECK-LABEL: ===== halves: llvmdialect =====
# CHECK-LABEL:   llvm.func @mlirtri_halves(
# CHECK-SAME:   %[[A:[^ ,:)]+]]: !llvm.ptr {llvm.noalias}, %[[ARG1:[^ ,:)]+]]: !llvm.ptr {llvm.noalias}) attributes {no_inline} {
# CHECK:     llvm.cond_br %[[V4:[^ ,:)]+]], ^bb2, ^bb3
# CHECK:     %[[V8:[^ ,:)]+]] = llvm.fadd %[[V7:[^ ,:)]+]], %[[V7]] : f32
# CHECK:     %[[V11:[^ ,:)]+]] = llvm.intr.sqrt(%[[V10:[^ ,:)]+]]) : (f32) -> f32
# CHECK:     llvm.store %[[V12:[^ ,:)]+]], %[[V13:[^ ,:)]+]] : f16, !llvm.ptr
# CHECK-LABEL: ===== rotated: llvmdialect =====
# CHECK-LABEL:   llvm.func @mlirtri_rotated(
# CHECK-SAME:   %[[A:[^ ,:)]+]]: !llvm.ptr {llvm.noalias}, %[[ARG1:[^ ,:)]+]]: !llvm.ptr {llvm.noalias}) attributes {no_inline} {
# CHECK:     llvm.cond_br %[[V5:[^ ,:)]+]], ^bb2, ^bb3
# CHECK:     %[[V10:[^ ,:)]+]] = llvm.fmul %[[V8:[^ ,:)]+]], %[[V8]] : f32
# CHECK-NEXT:     %[[V11:[^ ,:)]+]] = llvm.fmul %[[V9:[^ ,:)]+]], %[[V9]] : f32
# CHECK:     %[[V13:[^ ,:)]+]] = llvm.fmul %[[V8]], %[[V9]] : f32
# CHECK-NEXT:     %[[V14:[^ ,:)]+]] = llvm.fadd %[[V13]], %[[V13]] : f32
# CHECK:     llvm.store %[[V16:[^ ,:)]+]], %[[V17:[^ ,:)]+]] : !llvm.struct<(f32, f32)>, !llvm.ptr
# CHECK-LABEL: ===== largest: llvmdialect =====
# CHECK-LABEL:   llvm.func @mlirtri_largest(
# CHECK-SAME:   %[[A:[^ ,:)]+]]: !llvm.ptr {llvm.noalias}, %[[ARG1:[^ ,:)]+]]: !llvm.ptr {llvm.noalias}) attributes {no_inline} {
# CHECK:     %[[V7:[^ ,:)]+]] = llvm.alloca %[[V5:[^ ,:)]+]] x f32 {alignment = 64 : i64} : (i64) -> !llvm.ptr
# CHECK:     llvm.cond_br %[[V9:[^ ,:)]+]], ^bb2, ^bb3
# CHECK:     llvm.store %[[V0:[^ ,:)]+]], %[[V10:[^ ,:)]+]] : f32, !llvm.ptr
# CHECK:     llvm.cond_br %[[V13:[^ ,:)]+]], ^bb5, ^bb6
# CHECK:     llvm.store %[[V1:[^ ,:)]+]], %[[V14:[^ ,:)]+]] : i64, !llvm.ptr
# CHECK:     llvm.cond_br %[[V17:[^ ,:)]+]], ^bb8, ^bb12
# CHECK:     llvm.cond_br %[[V19:[^ ,:)]+]], ^bb10, ^bb11
# CHECK:     %[[V26:[^ ,:)]+]] = llvm.intr.maximum(%[[V25:[^ ,:)]+]], %[[V23:[^ ,:)]+]]) : (f32, f32) -> f32
# CHECK-NEXT:     llvm.store %[[V26]], %[[V24:[^ ,:)]+]] : f32, !llvm.ptr
# CHECK:     llvm.cond_br %[[V30:[^ ,:)]+]], ^bb14, ^bb18
# CHECK:     llvm.cond_br %[[V32:[^ ,:)]+]], ^bb16, ^bb17
# CHECK:     %[[V44:[^ ,:)]+]] = llvm.select %[[V42:[^ ,:)]+]], %[[V41:[^ ,:)]+]], %[[V43:[^ ,:)]+]] : i1, i1
# CHECK-NEXT:     %[[V45:[^ ,:)]+]] = llvm.select %[[V44]], %[[V31:[^ ,:)]+]], %[[V2:[^ ,:)]+]] : i1, i64
# CHECK-NEXT:     %[[V46:[^ ,:)]+]] = llvm.intr.smin(%[[V45]], %[[V40:[^ ,:)]+]]) : (i64, i64) -> i64
# CHECK-NEXT:     llvm.store %[[V46]], %[[V39:[^ ,:)]+]] : i64, !llvm.ptr
# CHECK-LABEL: ===== every_second: llvmdialect =====
# CHECK-LABEL:   llvm.func @mlirtri_every_second(
# CHECK-SAME:   %[[A:[^ ,:)]+]]: !llvm.ptr {llvm.noalias}, %[[ARG1:[^ ,:)]+]]: !llvm.ptr {llvm.noalias}) attributes {no_inline} {
# CHECK:     %[[V6:[^ ,:)]+]] = llvm.alloca %[[V4:[^ ,:)]+]] x f32 {alignment = 64 : i64} : (i64) -> !llvm.ptr
# CHECK:     "llvm.intr.memcpy"(%[[V6]], %[[A]], %[[V10:[^ ,:)]+]]) <{isVolatile = false}> : (!llvm.ptr, !llvm.ptr, i64) -> ()
# CHECK:     llvm.cond_br %[[V12:[^ ,:)]+]], ^bb2, ^bb3
# CHECK:     llvm.store %[[V16:[^ ,:)]+]], %[[V17:[^ ,:)]+]] : f32, !llvm.ptr
# CHECK:     "llvm.intr.memcpy"(%[[ARG1]], %[[V6]], %[[V10]]) <{isVolatile = false}> : (!llvm.ptr, !llvm.ptr, i64) -> ()
# CHECK-LABEL: ===== halvings: llvmdialect =====
# CHECK-LABEL:   llvm.func @mlirtri_halvings(
# CHECK-SAME:   %[[N:[^ ,:)]+]]: !llvm.ptr {llvm.noalias}, %[[ARG1:[^ ,:)]+]]: !llvm.ptr {llvm.noalias}) attributes {no_inline} {
# CHECK:     llvm.cond_br %[[V7:[^ ,:)]+]], ^bb2, ^bb3
# CHECK:     %[[N_1:[^ ,:)]+]] = llvm.sdiv %[[V6:[^ ,:)]+]], %[[V3:[^ ,:)]+]] : i64
# CHECK:     %[[N_7:[^ ,:)]+]] = llvm.select %[[N_5:[^ ,:)]+]], %[[N_6:[^ ,:)]+]], %[[N_1]] : i1, i64
# CHECK:     %[[V8:[^ ,:)]+]] = llvm.alloca %[[V0:[^ ,:)]+]] x i64 {alignment = 64 : i64} : (i64) -> !llvm.ptr
# CHECK-NEXT:     llvm.store %[[V5:[^ ,:)]+]], %[[V8]] : i64, !llvm.ptr
# CHECK:     llvm.store %[[V9:[^ ,:)]+]], %[[ARG1]] : i64, !llvm.ptr
# <<< mlirtri update-checks CHECK
