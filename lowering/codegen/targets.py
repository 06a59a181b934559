"""TVM's target for a `Target` of mlirtri. The host's CPU is named: code for a generic x86 is nine times slower."""

from __future__ import annotations

from functools import lru_cache

from mlirtri.lowering.core.cpu import cpu_flags
from mlirtri.lowering.core.launch_figures import most_shared_bytes
from mlirtri.lowering.core.target import Target
from mlirtri.lowering.toolchain import tvm_names

MAX_THREADS = 1024
SHARED_BYTES = 48 * 1024
"""Shared memory per block on every CUDA device since sm_75, without opting in to more."""
SHARED_LIMITS = {"shared": SHARED_BYTES, "shared.dyn": 96 * 1024}
"""Shared memory that a block may declare, and may request at launch (99 KiB on the smallest device since sm_80)."""

_FEATURES_BY_FLAG = {"avx512_bf16": "avx512bf16", "amx_tile": "amx-tile", "amx_bf16": "amx-bf16"}
"""Instruction sets of bf16 by Linux's flags, with LLVM's names."""
_NO_PASSES = ["-vectorize-slp:bool=false", "-disable-lsr:bool=true"]
"""LLVM's passes that take a tenth of a compilation, and change no kernel's speed: the schedules write vectors already,
and their strips leave few addresses to reduce in strength."""


def shared_limits(target: Target) -> dict[str, int]:
    """Return the shared memory that a block may declare, and may request at launch, on an architecture."""
    return {**SHARED_LIMITS, "shared.dyn": max(SHARED_LIMITS["shared.dyn"], most_shared_bytes(target.architecture))}


@lru_cache(maxsize=8)
def tvm_target(target: Target) -> tvm_names.Target:
    """Return TVM's target for `target`; a CUDA target's host is this CPU."""
    # LLVM's level 3 takes twice as long, and undoes product tiles that level 2 keeps.
    host = tvm_names.Target({**_host(), "opt-level": 2, "cl-opt": _NO_PASSES, "num-cores": max(1, target.threads)})
    if not target.is_cuda:
        return host
    return tvm_names.Target(_cuda(target.architecture), host=host)


@lru_cache(maxsize=1)
def host_cpu() -> str:
    """Return LLVM's name of this CPU."""
    return str(tvm_names.tvm.target.codegen.llvm_get_system_cpu())


@lru_cache(maxsize=1)
def cpu_features() -> frozenset[str]:
    """Return LLVM's names of this CPU's instruction sets."""
    with tvm_names.Target(_host()):
        return frozenset(str(feature) for feature in tvm_names.tvm.target.codegen.llvm_get_cpu_features())


def _host() -> dict:
    """Return this CPU as a target: LLVM takes an x86 CPU that it does not know for an older one."""
    features = [f"+{feature}" for flag, feature in _FEATURES_BY_FLAG.items() if flag in cpu_flags()]
    return {"kind": "llvm", "mcpu": host_cpu(), **({"mattr": features} if features else {})}


def vector_bits() -> int:
    return next((bits for feature, bits in (("avx512f", 512), ("avx", 256)) if feature in cpu_features()), 128)


def lanes_in_register(*bits: int, least_bits: int = 8) -> int:
    """Return the lanes of a vector register of the widest of elements of `bits`, taken as `least_bits` or more."""
    return max(1, vector_bits() // max(least_bits, *bits))


def lanes_for(dtype: str) -> int:
    """Return the number of lanes of a vector register of this dtype."""
    return lanes_in_register(int(dtype.lstrip("abcdefghijklmnopqrstuvwxyz")))


def vector_registers() -> int:
    """Return the number of vector registers: 32 with AVX-512 and on 64-bit ARM, else 16."""
    return 32 if vector_bits() == 512 or cpu_features() & {"neon", "sve"} else 16


def _cuda(architecture: str) -> dict:
    return {
        "kind": "cuda",
        "arch": architecture,
        "max_threads_per_block": MAX_THREADS,
        "max_num_threads": MAX_THREADS,
        "max_shared_memory_per_block": SHARED_BYTES,
        "thread_warp_size": 32,
    }
