"""What the kernels may use of SPIR-V: Vulkan 1.1 with integers and floats of all widths in buffers."""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import ir

VERSION = "v1.3"
"""The SPIR-V of Vulkan 1.1."""
CAPABILITIES = (
    "Shader", "Float16", "Float64", "Int8", "Int16", "Int64", "StorageBuffer8BitAccess", "StorageBuffer16BitAccess",
)  # fmt: skip
EXTENSIONS = ("SPV_KHR_storage_buffer_storage_class", "SPV_KHR_8bit_storage", "SPV_KHR_16bit_storage")
ATTACH = (
    f"spirv-attach-target{{ver={VERSION} caps={','.join(CAPABILITIES)} exts={','.join(EXTENSIONS)} client_api=Vulkan}}"
)
"""The pass that says so to each `gpu.module`. A kernel's own module lists what it uses of it."""


def target_environment() -> ir.Attribute:
    """Return the attribute `spirv.target_env` of all of this."""
    vce = f"#spirv.vce<{VERSION}, [{', '.join(CAPABILITIES)}], [{', '.join(EXTENSIONS)}]>"
    return ir.Attribute.parse(f"#spirv.target_env<{vce}, api=Vulkan, #spirv.resource_limits<>>")


def entry_point(threads: list[int]) -> ir.Attribute:
    """Return the attribute `spirv.entry_point_abi` of a kernel with so many threads per block."""
    return ir.Attribute.parse(f"#spirv.entry_point_abi<workgroup_size = [{', '.join(map(str, threads))}]>")
