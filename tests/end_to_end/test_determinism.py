"""The text of every stage and every pass is equal in two processes whose hashes differ."""

from __future__ import annotations

import os
import subprocess
import sys

from warm_processes import run_warm

KERNEL = """
import hashlib

import mlirtri as mt


def helper(x, s):
    y = x * s
    return y - 1


@mt.jit
def many(a: mt.Tensor[[8, 16], mt.float32], b: mt.Tensor[[8, 16], mt.float32], w: mt.Tensor[[16, 16], mt.float32],
         n: mt.Tensor[[8], mt.uint8], s: mt.float32):
    t = a + b
    t = mt.exp(t * 2) - a
    t = helper(t, s)
    u = t @ w
    v = mt.softmax(u, -1)
    m = v.mean(1, keepdim=True)
    q = mt.maximum(mt.where(v > m, v, float("-inf")), -1.0)
    c = mt.concatenate((v, q), axis=1)
    z = mt.sqrt(abs(c)) / 3 + mt.layer_norm(c, 1)
    i = v.argmax(1)
    i = i // 2 + i % 3 + (n >> 1).astype(mt.int64)
    return z, q.sum(0), i, a[::2, 1:] * 0.5, mt.arange(5), mt.eye(3), n // 3, v.T.reshape(4, 32)


def show(where, text):
    print(where, hashlib.blake2b(text.encode(), digest_size=8).hexdigest(), len(text))


for pipeline, target in (("linalg", "cpu"), ("relax", "cuda"), ("mlir", "cpu")):
    kernel = many.compile(s=0.5, pipeline=pipeline, target=target)
    for stage, record in kernel.compilation.records.items():
        show(f"{pipeline} {target} {stage} readable", record.readable())
        show(f"{pipeline} {target} {stage} complete", record.complete())
        for name, text in kernel.passes[stage].items():
            show(f"{pipeline} {target} {stage} {name}", text)
"""


def fresh(file, environment):
    command = [sys.executable, str(file)]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)


def warm(file, environment):
    """A process that is forked from one with another seed, and has everything imported."""
    return run_warm([str(file)], file.parent, environment)


def test_all_texts_are_equal_under_two_hash_seeds(tmp_path):
    file = tmp_path / "kernels.py"
    file.write_text(KERNEL)
    texts = []
    for run in (fresh, warm):
        # A dump keeps the text of each pass: it is not compiled once more for them.
        environment = {"PYTHONHASHSEED": "4321", "MLIRTRI_DUMP_DIR": str(tmp_path / run.__name__)}
        done = run(file, environment)
        assert done.returncode == 0, done.stderr
        texts.append(done.stdout.splitlines())
    first, second = texts
    assert len(first) > 120
    assert {"linalg cpu asm", "mlir cpu asm", "relax cuda relax", "relax cuda cuda"} <= {
        line.rpartition(" readable ")[0] for line in first if " readable " in line
    }
    assert [pair for pair in zip(first, second, strict=True) if pair[0] != pair[1]] == []
