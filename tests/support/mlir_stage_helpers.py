"""MLIR text through the stages of pipeline `mlir`, and functions of it to send there."""

from __future__ import annotations

import re

import torch

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.dialect.bindings.mlir import ir, print_module
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.core.target import as_target
from mlirtri.lowering.fusion import linalg_to_fused
from mlirtri.lowering.mlir_backend.bufferize import fused_to_bufferized
from mlirtri.lowering.mlir_backend.llvm import bufferized_to_llvmdialect, llvmdialect_to_asm

LOWERINGS = {
    "fused": linalg_to_fused,
    "bufferized": fused_to_bufferized,
    "llvmdialect": bufferized_to_llvmdialect,
    "asm": llvmdialect_to_asm,
}


def lower_to(text, until="asm", kernel="f", keep_passes=False, **options):
    """The IR after the stage `until`, and the context that went along."""
    context = CompileContext(kernel, as_target("cpu"), keep_passes=keep_passes, **options)
    with ir.Context():
        state = ir.Module.parse(text)
        for stage, lower in LOWERINGS.items():
            context.stage = stage
            state = lower.lower(state, context)
            if stage == until:
                return state, context


def text_after(text, until):
    return print_module(lower_to(text, until)[0])


def compiled(text, kernel="f"):
    return lower_to(text, kernel=kernel)[0].executable


def run(text, inputs, outputs, kernel="f"):
    """Call the kernel of `text`: `inputs` are arrays, `outputs` (shape, dtype name). Gives arrays."""
    tensors = [torch.as_tensor(value) for value in inputs]
    contents = [bytes(tensor.untyped_storage()) for tensor in tensors]
    results = [torch.full(shape, 7, dtype=DTYPES[name].torch) for shape, name in outputs]
    compiled(text, kernel).launch(tensors, results)
    for tensor, old in zip(tensors, contents, strict=True):
        assert bytes(tensor.untyped_storage()) == old, "an input was written"
    return [to_numpy(result) for result in results]


def to_numpy(tensor):
    return tensor.float().numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()


def elementwise(types, result, body, shape="4"):
    """A function over `types` (MLIR element types) of one elementwise operation whose body yields %r."""
    dims = [f"d{axis}" for axis in range(len(shape.split("x")))] if shape else []
    identity = f"affine_map<({', '.join(dims)}) -> ({', '.join(dims)})>"
    kinds = [f"tensor<{shape}x{one}>" if shape else f"tensor<{one}>" for one in (*types, result)]
    arguments = ", ".join(f"%a{i}: {kind}" for i, kind in enumerate(kinds[:-1]))
    names = ", ".join(f"%a{i}" for i in range(len(types)))
    block = ", ".join([*(f"%x{i}: {one}" for i, one in enumerate(types)), f"%o: {result}"])
    loops = ", ".join(['"parallel"'] * len(dims))
    return f"""
    func.func @f({arguments}) -> {kinds[-1]} {{
      %e = tensor.empty() : {kinds[-1]}
      %0 = linalg.generic {{indexing_maps = [{", ".join([identity] * len(kinds))}], iterator_types = [{loops}]}}
          ins({names} : {", ".join(kinds[:-1])}) outs(%e : {kinds[-1]}) {{
      ^bb0({block}):
        {body}
        linalg.yield %r : {result}
      }} -> {kinds[-1]}
      return %0 : {kinds[-1]}
    }}"""


def chain(*steps, shape="4", result=None):
    """A function of %a, written shortly: ``%2 = f(%1) exp``, ``%3 = f[12](%2, %1) addf``, ``%4 = sum(%3)`` over the
    last axis, or a line of MLIR as it is. Returns the value of the last step, of shape `result`.
    """
    lines = [_step(step, shape) for step in steps]
    last, result = steps[-1].split(" = ")[0], f"tensor<{result or shape}xf32>"
    return f"""
    func.func @f(%a: tensor<{shape}xf32>) -> {result} {{
      {"".join(lines)}
      return {last} : {result}
    }}"""


def _step(step, shape):
    match = re.fullmatch(r"(%\w+) = (f|sum)(?:\[(\w+)\])?\((.*?)\) ?(\w*)", step)
    if match is None:
        return step + "\n"
    name, kind, own_shape, operands, function = match.groups()
    sizes, operands = (own_shape or shape).split("x"), operands.split(", ")
    whole = f"tensor<{'x'.join(sizes)}xf32>"
    dims = [f"d{axis}" for axis in range(len(sizes))]
    out = dims if kind == "f" else dims[:-1]
    target = f"tensor<{'x'.join([*sizes[: len(out)], 'f32'])}>"
    maps = [f"affine_map<({', '.join(dims)}) -> ({', '.join(one)})>" for one in [dims] * len(operands) + [out]]
    loops = ", ".join(['"parallel"'] * len(out) + ['"reduction"'] * (len(dims) - len(out)))
    dialect = "arith" if function.endswith("f") else "math"
    values = ", ".join(f"%x{i}" for i in range(len(operands)))
    body = f"%r = {dialect}.{function} {values} : f32" if kind == "f" else "%r = arith.addf %o, %x0 : f32"
    return f"""
      %zero{name[1:]} = arith.constant 0.0 : f32
      %empty{name[1:]} = tensor.empty() : {target}
      %init{name[1:]} = linalg.fill ins(%zero{name[1:]} : f32) outs(%empty{name[1:]} : {target}) -> {target}
      {name} = linalg.generic {{indexing_maps = [{", ".join(maps)}], iterator_types = [{loops}]}}
          ins({", ".join(operands)} : {", ".join([whole] * len(operands))}) outs(%init{name[1:]} : {target}) {{
      ^bb0({", ".join(f"%x{i}: f32" for i in range(len(operands)))}, %o: f32):
        {body}
        linalg.yield %r : f32
      }} -> {target}
"""


ADD_TWICE = """
#id = affine_map<(i, j) -> (i, j)>
func.func @f(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %e = tensor.empty() : tensor<2x3xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%a, %b : tensor<2x3xf32>, tensor<2x3xf32>) outs(%e : tensor<2x3xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.addf %x, %y : f32
    linalg.yield %s : f32
  } -> tensor<2x3xf32> loc("out"("/src/k.py":3:11))
  %1 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%0, %a : tensor<2x3xf32>, tensor<2x3xf32>) outs(%e : tensor<2x3xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.addf %x, %y : f32
    linalg.yield %s : f32
  } -> tensor<2x3xf32> loc("out"("/src/k.py":4:11))
  return %1 : tensor<2x3xf32>
}"""

SOFTMAX = """
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i, 0)>
func.func @f(%a: tensor<5x33xf32>) -> tensor<5x33xf32> {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<5x33xf32>
  %e1 = tensor.empty() : tensor<5x1xf32>
  %f1 = linalg.fill ins(%lowest : f32) outs(%e1 : tensor<5x1xf32>) -> tensor<5x1xf32>
  %m = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%a : tensor<5x33xf32>) outs(%f1 : tensor<5x1xf32>) {
  ^bb0(%x: f32, %o: f32):
    %s = arith.maximumf %o, %x : f32
    linalg.yield %s : f32
  } -> tensor<5x1xf32>
  %p = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%a, %m : tensor<5x33xf32>, tensor<5x1xf32>) outs(%e : tensor<5x33xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.subf %x, %y : f32
    %t = math.exp %s : f32
    linalg.yield %t : f32
  } -> tensor<5x33xf32>
  %f2 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<5x1xf32>) -> tensor<5x1xf32>
  %n = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%p : tensor<5x33xf32>) outs(%f2 : tensor<5x1xf32>) {
  ^bb0(%x: f32, %o: f32):
    %s = arith.addf %o, %x : f32
    linalg.yield %s : f32
  } -> tensor<5x1xf32>
  %q = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%p, %n : tensor<5x33xf32>, tensor<5x1xf32>) outs(%e : tensor<5x33xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.divf %x, %y : f32
    linalg.yield %s : f32
  } -> tensor<5x33xf32>
  return %q : tensor<5x33xf32>
}"""


def matmul(m, n, k, kind="f32"):
    return f"""
    func.func @f(%a: tensor<{m}x{k}x{kind}>, %b: tensor<{k}x{n}x{kind}>) -> tensor<{m}x{n}xf32> {{
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<{m}x{n}xf32>
      %f = linalg.fill ins(%zero : f32) outs(%e : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
      %0 = linalg.matmul ins(%a, %b : tensor<{m}x{k}x{kind}>, tensor<{k}x{n}x{kind}>)
          outs(%f : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
      return %0 : tensor<{m}x{n}xf32>
    }}"""


SHAPES = """
func.func @f(%a: tensor<4x6xf32>, %b: tensor<2x6xf32>)
    -> (tensor<2x3xf32>, tensor<6x6xf32>, tensor<5x8xf32>, tensor<2x2x6xf32>, tensor<24xf32>, tensor<4x6xf32>) {
  %zero = arith.constant 9.0 : f32
  %slice = tensor.extract_slice %a[1, 0] [2, 3] [2, 2] : tensor<4x6xf32> to tensor<2x3xf32>
  %concat = tensor.concat dim(0) %a, %b : (tensor<4x6xf32>, tensor<2x6xf32>) -> tensor<6x6xf32>
  %pad = tensor.pad %a low[1, 0] high[0, 2] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  } : tensor<4x6xf32> to tensor<5x8xf32>
  %expand = tensor.expand_shape %a [[0, 1], [2]] output_shape [2, 2, 6] : tensor<4x6xf32> into tensor<2x2x6xf32>
  %collapse = tensor.collapse_shape %a [[0, 1]] : tensor<4x6xf32> into tensor<24xf32>
  %insert = tensor.insert_slice %b into %a[0, 0] [2, 6] [2, 1] : tensor<2x6xf32> into tensor<4x6xf32>
  return %slice, %concat, %pad, %expand, %collapse, %insert : tensor<2x3xf32>, tensor<6x6xf32>, tensor<5x8xf32>,
      tensor<2x2x6xf32>, tensor<24xf32>, tensor<4x6xf32>
}"""
