"""A Vulkan device that runs SPIR-V modules, through libvulkan's C interface.

Each launch is a compute pipeline whose storage buffers are set 0, bindings 0, 1… All buffers are in memory that the
host sees. A discrete device comes before an integrated one, and that before one that is a CPU (lavapipe). Structures
are those of vulkan_core.h; only fields that are not zero are given. Raises `VulkanError`.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import struct
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

Handle = ctypes.c_void_p
U32, U64, I32 = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int32


def _structure(name: str, *fields: tuple[str, Any]) -> Any:
    return type(name, (ctypes.Structure,), {"_fields_": list(fields)})


_HEAD = (("sType", U32), ("pNext", Handle))
_InstanceInfo = _structure("InstanceInfo", *_HEAD, ("flags", U32), ("app", Handle), ("layers", U32),
                           ("layer_names", Handle), ("extensions", U32), ("extension_names", Handle))  # fmt: skip
_ApplicationInfo = _structure("ApplicationInfo", *_HEAD, ("name", ctypes.c_char_p), ("version", U32),
                              ("engine", ctypes.c_char_p), ("engine_version", U32), ("api", U32))  # fmt: skip
_QueueInfo = _structure("QueueInfo", *_HEAD, ("flags", U32), ("family", U32), ("count", U32), ("priorities", Handle))
_DeviceInfo = _structure("DeviceInfo", *_HEAD, ("flags", U32), ("queues", U32), ("queue_infos", Handle),
                         ("layers", U32), ("layer_names", Handle), ("extensions", U32), ("extension_names", Handle),
                         ("features", Handle))  # fmt: skip
_BufferInfo = _structure("BufferInfo", *_HEAD, ("flags", U32), ("size", U64), ("usage", U32), ("sharing", U32),
                         ("families", U32), ("family_numbers", Handle))  # fmt: skip
_Requirements = _structure("Requirements", ("size", U64), ("alignment", U64), ("types", U32))
_AllocateInfo = _structure("AllocateInfo", *_HEAD, ("size", U64), ("type", U32))
_ShaderInfo = _structure("ShaderInfo", *_HEAD, ("flags", U32), ("size", ctypes.c_size_t), ("code", Handle))
_Binding = _structure("Binding", ("number", U32), ("kind", U32), ("count", U32), ("stages", U32), ("samplers", Handle))
_SetLayoutInfo = _structure("SetLayoutInfo", *_HEAD, ("flags", U32), ("count", U32), ("bindings", Handle))
_LayoutInfo = _structure("LayoutInfo", *_HEAD, ("flags", U32), ("sets", U32), ("set_layouts", Handle), ("ranges", U32),
                         ("push_ranges", Handle))  # fmt: skip
_StageInfo = _structure("StageInfo", *_HEAD, ("flags", U32), ("stage", U32), ("module", Handle),
                        ("name", ctypes.c_char_p), ("specialization", Handle))  # fmt: skip
_PipelineInfo = _structure("PipelineInfo", *_HEAD, ("flags", U32), ("stage", _StageInfo), ("layout", Handle),
                           ("base", Handle), ("base_index", I32))  # fmt: skip
_PoolSize = _structure("PoolSize", ("kind", U32), ("count", U32))
_PoolInfo = _structure("PoolInfo", *_HEAD, ("flags", U32), ("sets", U32), ("sizes", U32), ("pool_sizes", Handle))
_SetInfo = _structure("SetInfo", *_HEAD, ("pool", Handle), ("count", U32), ("layouts", Handle))
_BufferRange = _structure("BufferRange", ("buffer", Handle), ("offset", U64), ("size", U64))
_Write = _structure("Write", *_HEAD, ("set", Handle), ("binding", U32), ("element", U32), ("count", U32),
                    ("type", U32), ("images", Handle), ("buffers", Handle), ("views", Handle))  # fmt: skip
_CommandPoolInfo = _structure("CommandPoolInfo", *_HEAD, ("flags", U32), ("family", U32))
_CommandsInfo = _structure("CommandsInfo", *_HEAD, ("pool", Handle), ("level", U32), ("count", U32))
_BeginInfo = _structure("BeginInfo", *_HEAD, ("flags", U32), ("inheritance", Handle))
_SubmitInfo = _structure("SubmitInfo", *_HEAD, ("waits", U32), ("semaphores", Handle), ("stages", Handle),
                         ("count", U32), ("commands", Handle), ("signals", U32), ("signalled", Handle))  # fmt: skip
_Barrier = _structure("Barrier", *_HEAD, ("source", U32), ("target", U32))
_Features = _structure("Features", *_HEAD, ("flags", U32 * 55))
"""VkPhysicalDeviceFeatures2: each flag is a VkBool32."""
_Features11 = _structure("Features11", *_HEAD, ("flags", U32 * 12))
_Features12 = _structure("Features12", *_HEAD, ("flags", U32 * 47))
# VkStructureType
_TYPES = {
    _ApplicationInfo: 0, _InstanceInfo: 1, _QueueInfo: 2, _DeviceInfo: 3, _SubmitInfo: 4, _AllocateInfo: 5,
    _BufferInfo: 12, _ShaderInfo: 16, _StageInfo: 18, _PipelineInfo: 29, _LayoutInfo: 30, _SetLayoutInfo: 32,
    _PoolInfo: 33, _SetInfo: 34, _Write: 35, _CommandPoolInfo: 39, _CommandsInfo: 40, _BeginInfo: 42, _Barrier: 46,
    _Features11: 49, _Features12: 51, _Features: 1000059000,
}  # fmt: skip
_CAPABILITIES = {
    10: ("float64", 0, 37), 11: ("int64", 0, 38), 22: ("int16", 0, 39), 9: ("float16", 2, 7), 39: ("int8", 2, 8),
    12: ("64-bit atomics", 2, 5), 4448: ("8-bit storage", 2, 2), 4433: ("16-bit storage", 1, 0),
}  # fmt: skip
"""By SPIR-V's capability its name for users, and the flag of a feature structure that a device says it by."""
_STORAGE_BUFFER, _COMPUTE, _COMPUTE_STAGE = 7, 0x20, 0x800
_DISPATCH_BASE = 0x10
"""VK_PIPELINE_CREATE_DISPATCH_BASE_BIT: the numbers of blocks may begin elsewhere than at 0."""
_SHADER_READS_AND_WRITES, _HOST_READS = 0x60, 0x2000
_PROPERTIES_BYTES, _DEVICE_TYPE, _NAME, _MEMORY_BYTES = 4096, 16, 20, 1024
_KINDS_OF_DEVICES = {2: 0, 1: 1, 3: 2, 4: 3}
"""VkPhysicalDeviceType to its rank: discrete, integrated, virtual, CPU."""
_VISIBLE_AND_COHERENT = 0x6
MOST_BLOCKS = 65535
"""Blocks along an axis that every device takes."""


class VulkanError(RuntimeError):
    """Vulkan refused a call, or there is no device."""


def _made(kind: Any, **fields: Any) -> Any:
    return kind(sType=_TYPES[kind], **fields)


def _pointer(value: Any) -> Any:
    return ctypes.cast(ctypes.pointer(value), Handle)


@dataclass
class Buffer:
    """Memory that the device and the host see."""

    handle: Any
    allocation: Any
    address: int
    size: int


@dataclass(frozen=True)
class Pipeline:
    """A SPIR-V module made ready for launches with so many buffers."""

    pipeline: Any
    layout: Any
    set_layout: Any
    count: int


def device() -> Vulkan:
    """Return the device that kernels of this process run on; raises `VulkanError`."""
    return _device_of(os.getpid())


@lru_cache(maxsize=1)
def _device_of(_process: int) -> Vulkan:
    # A forked process cannot use the handles of its parent.
    return Vulkan()


class Vulkan:
    """The best device of this machine. One thread at a time holds `lock` and uses it."""

    def __init__(self):
        name = ctypes.util.find_library("vulkan")
        if name is None:
            raise VulkanError("libvulkan is not on this machine")
        self.lock = threading.Lock()
        self.library = ctypes.CDLL(name)
        application = _made(_ApplicationInfo, api=(1 << 22) | (2 << 12))
        self.instance = self.create("Instance", _made(_InstanceInfo, app=_pointer(application)), owner=None)
        self.physical, self.name = self._find()
        self._features = [_made(kind) for kind in (_Features, _Features11, _Features12)]
        for features, following in zip(self._features, self._features[1:], strict=False):
            features.pNext = _pointer(following)
        self.library.vkGetPhysicalDeviceFeatures2(self.physical, ctypes.byref(self._features[0]))
        queue = _made(_QueueInfo, family=self._family(), count=1, priorities=_pointer(ctypes.c_float(1)))
        information = _made(_DeviceInfo, pNext=_pointer(self._features[0]), queues=1, queue_infos=_pointer(queue))
        self.device = self.create("Device", information, owner=self.physical)
        self.queue = Handle()
        self.library.vkGetDeviceQueue(self.device, queue.family, 0, ctypes.byref(self.queue))
        self.commands_pool = self.create("CommandPool", _made(_CommandPoolInfo, family=queue.family), self.device)
        memory = ctypes.create_string_buffer(_MEMORY_BYTES)
        self.library.vkGetPhysicalDeviceMemoryProperties(self.physical, memory)
        count, *types = struct.unpack_from("<65I", memory)
        self._memory = [flags & _VISIBLE_AND_COHERENT == _VISIBLE_AND_COHERENT for flags in types[: 2 * count : 2]]

    def missing(self, words: bytes) -> list[str]:
        """Return what a SPIR-V module uses and the device has not."""
        missing, position = [], 5
        numbers = struct.unpack(f"<{len(words) // 4}I", words)
        while position < len(numbers) and numbers[position] & 0xFFFF == _OP_CAPABILITY:
            name, group, flag = _CAPABILITIES.get(numbers[position + 1], ("", 0, 0))
            if name and not self._features[group].flags[flag]:
                missing.append(name)
            position += numbers[position] >> 16
        return missing

    def buffer(self, size: int) -> Buffer:
        """Allocate a storage buffer of at least 4 bytes, mapped."""
        size = max(4, size)
        handle = self.create("Buffer", _made(_BufferInfo, size=size, usage=0x20), self.device)
        needs = _Requirements()
        self.library.vkGetBufferMemoryRequirements(self.device, handle, ctypes.byref(needs))
        kinds = [kind for kind, fits in enumerate(self._memory) if fits and needs.types >> kind & 1]
        if not kinds:
            raise VulkanError(f"{self.name} has no memory that the host sees")
        allocation, mapped = Handle(), Handle()
        information = _made(_AllocateInfo, size=needs.size, type=kinds[0])
        self.call("AllocateMemory", self.device, ctypes.byref(information), None, ctypes.byref(allocation))
        self.call("BindBufferMemory", self.device, handle, allocation, U64(0))
        self.call("MapMemory", self.device, allocation, U64(0), U64(needs.size), 0, ctypes.byref(mapped))
        return Buffer(handle, allocation, mapped.value or 0, size)

    def free(self, buffers: Sequence[Buffer]) -> None:
        for buffer in buffers:
            self.library.vkDestroyBuffer(self.device, buffer.handle, None)
            self.library.vkFreeMemory(self.device, buffer.allocation, None)

    def pipeline(self, words: bytes, entry: str, count: int) -> Pipeline:
        """Make a module ready for launches with `count` buffers."""
        code = ctypes.create_string_buffer(words, len(words))
        shader = self.create("ShaderModule", _made(_ShaderInfo, size=len(words), code=_pointer(code)), self.device)
        bindings = (_Binding * count)(*[_Binding(n, _STORAGE_BUFFER, 1, _COMPUTE) for n in range(count)])
        set_information = _made(_SetLayoutInfo, count=count, bindings=ctypes.cast(bindings, Handle))
        set_layout = self.create("DescriptorSetLayout", set_information, self.device)
        layout = self.create(
            "PipelineLayout", _made(_LayoutInfo, sets=1, set_layouts=_pointer(set_layout)), self.device
        )
        stage = _made(_StageInfo, stage=_COMPUTE, module=shader, name=entry.encode())
        information = _made(_PipelineInfo, flags=_DISPATCH_BASE, stage=stage, layout=layout)
        pipeline = Handle()
        arguments = (self.device, None, 1, ctypes.byref(information), None, ctypes.byref(pipeline))
        self.call("CreateComputePipelines", *arguments)
        self.library.vkDestroyShaderModule(self.device, shader, None)
        return Pipeline(pipeline, layout, set_layout, count)

    def release(self, pipeline: Pipeline) -> None:
        self.library.vkDestroyPipeline(self.device, pipeline.pipeline, None)
        self.library.vkDestroyPipelineLayout(self.device, pipeline.layout, None)
        self.library.vkDestroyDescriptorSetLayout(self.device, pipeline.set_layout, None)

    def _find(self) -> tuple[Any, str]:
        count, devices = U32(16), (Handle * 16)()
        self.call("EnumeratePhysicalDevices", self.instance, ctypes.byref(count), devices)
        found = []
        for number, device in enumerate(devices[: count.value]):
            properties = ctypes.create_string_buffer(_PROPERTIES_BYTES)
            self.library.vkGetPhysicalDeviceProperties(Handle(device), properties)
            kind = U32.from_buffer(properties, _DEVICE_TYPE).value
            name = ctypes.string_at(ctypes.addressof(properties) + _NAME).decode(errors="replace")
            if U32.from_buffer(properties).value >= (1 << 22) | (2 << 12):
                found.append((_KINDS_OF_DEVICES.get(kind, 4), number, device, name))
        if not found:
            raise VulkanError("no driver of Vulkan 1.2 is on this machine")
        _, _, device, name = min(found)
        return Handle(device), name

    def _family(self) -> int:
        """Return the first family of queues that compute."""
        count = U32(32)
        properties = (U32 * (6 * 32))()
        self.library.vkGetPhysicalDeviceQueueFamilyProperties(self.physical, ctypes.byref(count), properties)
        return next((n for n in range(count.value) if properties[6 * n] & 2), 0)

    def call(self, name: str, *arguments: object) -> None:
        if (status := getattr(self.library, f"vk{name}")(*arguments)) != 0:
            raise VulkanError(f"vk{name} gave {status}")

    def create(self, name: str, information: Any, owner: Any) -> Any:
        handle = Handle()
        arguments = (ctypes.byref(information), None, ctypes.byref(handle))
        self.call(f"Create{name}", *arguments if owner is None else (owner, *arguments))
        return handle


_OP_CAPABILITY = 17


class Commands:
    """Launches that are recorded, and run at `submit`, each after the one before it."""

    def __init__(self, device: Vulkan):
        self.device = device
        self._commands: Any = None
        self._pools: list[Any] = []

    def dispatch(self, pipeline: Pipeline, buffers: Sequence[Buffer], blocks: Sequence[int]) -> None:
        """Record a launch of so many blocks along x, y and z, in several parts where they are many."""
        library = self.device.library
        commands = self._begun()
        sets = ctypes.byref(self._descriptors(pipeline, buffers))
        library.vkCmdBindPipeline(commands, 1, pipeline.pipeline)
        library.vkCmdBindDescriptorSets(commands, 1, pipeline.layout, 0, 1, sets, 0, None)
        starts = [range(0, count, MOST_BLOCKS) for count in blocks]
        for x in starts[0]:
            for y in starts[1]:
                for z in starts[2]:
                    part = [min(MOST_BLOCKS, count - at) for count, at in zip(blocks, (x, y, z), strict=True)]
                    library.vkCmdDispatchBase(commands, x, y, z, *part)
        barrier = _made(_Barrier, source=_SHADER_READS_AND_WRITES, target=_SHADER_READS_AND_WRITES | _HOST_READS)
        after = _COMPUTE_STAGE | 0x4000  # the host's stage
        library.vkCmdPipelineBarrier(commands, _COMPUTE_STAGE, after, 0, 1, ctypes.byref(barrier), 0, None, 0, None)

    def submit(self) -> None:
        """Run what is recorded, and wait for it."""
        if self._commands is None:
            return
        device, commands = self.device, self._commands
        device.call("EndCommandBuffer", commands)
        submission = _made(_SubmitInfo, count=1, commands=_pointer(commands))
        device.call("QueueSubmit", device.queue, 1, ctypes.byref(submission), None)
        device.call("QueueWaitIdle", device.queue)
        device.library.vkFreeCommandBuffers(device.device, device.commands_pool, 1, ctypes.byref(commands))
        for pool in self._pools:
            device.library.vkDestroyDescriptorPool(device.device, pool, None)
        self._commands, self._pools = None, []

    def _begun(self) -> Any:
        if self._commands is None:
            commands = Handle()
            information = _made(_CommandsInfo, pool=self.device.commands_pool, count=1)
            self.device.call(
                "AllocateCommandBuffers", self.device.device, ctypes.byref(information), ctypes.byref(commands)
            )
            self.device.call("BeginCommandBuffer", commands, ctypes.byref(_made(_BeginInfo)))
            self._commands = commands
        return self._commands

    def _descriptors(self, pipeline: Pipeline, buffers: Sequence[Buffer]) -> Any:
        device = self.device
        size = _PoolSize(_STORAGE_BUFFER, max(1, len(buffers)))
        pool = device.create(
            "DescriptorPool", _made(_PoolInfo, sets=1, sizes=1, pool_sizes=_pointer(size)), device.device
        )
        self._pools.append(pool)
        descriptors = Handle()
        information = _made(_SetInfo, pool=pool, count=1, layouts=_pointer(pipeline.set_layout))
        device.call("AllocateDescriptorSets", device.device, ctypes.byref(information), ctypes.byref(descriptors))
        ranges = [_BufferRange(buffer.handle, 0, buffer.size) for buffer in buffers]
        writes = [_made(_Write, set=descriptors, binding=n, count=1, type=_STORAGE_BUFFER, buffers=_pointer(each))
                  for n, each in enumerate(ranges)]  # fmt: skip
        device.library.vkUpdateDescriptorSets(device.device, len(writes), (_Write * len(writes))(*writes), 0, None)
        return descriptors
