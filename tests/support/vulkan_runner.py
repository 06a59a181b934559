"""Run SPIR-V modules on a Vulkan device that is a CPU (lavapipe), through libvulkan's C interface.

Each launch is a compute pipeline whose storage buffers are set 0, bindings 0, 1… All buffers are in memory that the
host sees. Structures are those of vulkan_core.h; only fields that are not zero are given.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from dataclasses import dataclass

import numpy as np

Handle = ctypes.c_void_p


def structure(name, *fields):
    return type(name, (ctypes.Structure,), {"_fields_": list(fields)})


U32, U64, I32 = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int32
HEAD = (("sType", U32), ("pNext", Handle))
InstanceInfo = structure("InstanceInfo", *HEAD, ("flags", U32), ("app", Handle), ("layers", U32),
                         ("layer_names", Handle), ("extensions", U32), ("extension_names", Handle))  # fmt: skip
ApplicationInfo = structure("ApplicationInfo", *HEAD, ("name", ctypes.c_char_p), ("version", U32),
                            ("engine", ctypes.c_char_p), ("engine_version", U32), ("api", U32))  # fmt: skip
QueueInfo = structure("QueueInfo", *HEAD, ("flags", U32), ("family", U32), ("count", U32), ("priorities", Handle))
DeviceInfo = structure("DeviceInfo", *HEAD, ("flags", U32), ("queues", U32), ("queue_infos", Handle), ("layers", U32),
                       ("layer_names", Handle), ("extensions", U32), ("extension_names", Handle),
                       ("features", Handle))  # fmt: skip
BufferInfo = structure("BufferInfo", *HEAD, ("flags", U32), ("size", U64), ("usage", U32), ("sharing", U32),
                       ("families", U32), ("family_numbers", Handle))  # fmt: skip
Requirements = structure("Requirements", ("size", U64), ("alignment", U64), ("types", U32))
AllocateInfo = structure("AllocateInfo", *HEAD, ("size", U64), ("type", U32))
ShaderInfo = structure("ShaderInfo", *HEAD, ("flags", U32), ("size", ctypes.c_size_t), ("code", Handle))
Binding = structure("Binding", ("number", U32), ("kind", U32), ("count", U32), ("stages", U32), ("samplers", Handle))
SetLayoutInfo = structure("SetLayoutInfo", *HEAD, ("flags", U32), ("count", U32), ("bindings", Handle))
LayoutInfo = structure("LayoutInfo", *HEAD, ("flags", U32), ("sets", U32), ("set_layouts", Handle), ("ranges", U32),
                       ("push_ranges", Handle))  # fmt: skip
StageInfo = structure("StageInfo", *HEAD, ("flags", U32), ("stage", U32), ("module", Handle), ("name", ctypes.c_char_p),
                      ("specialization", Handle))  # fmt: skip
PipelineInfo = structure("PipelineInfo", *HEAD, ("flags", U32), ("stage", StageInfo), ("layout", Handle),
                         ("base", Handle), ("base_index", I32))  # fmt: skip
PoolSize = structure("PoolSize", ("kind", U32), ("count", U32))
PoolInfo = structure("PoolInfo", *HEAD, ("flags", U32), ("sets", U32), ("sizes", U32), ("pool_sizes", Handle))
SetInfo = structure("SetInfo", *HEAD, ("pool", Handle), ("count", U32), ("layouts", Handle))
BufferRange = structure("BufferRange", ("buffer", Handle), ("offset", U64), ("size", U64))
Write = structure("Write", *HEAD, ("set", Handle), ("binding", U32), ("element", U32), ("count", U32), ("type", U32),
                  ("images", Handle), ("buffers", Handle), ("views", Handle))  # fmt: skip
CommandPoolInfo = structure("CommandPoolInfo", *HEAD, ("flags", U32), ("family", U32))
CommandsInfo = structure("CommandsInfo", *HEAD, ("pool", Handle), ("level", U32), ("count", U32))
BeginInfo = structure("BeginInfo", *HEAD, ("flags", U32), ("inheritance", Handle))
SubmitInfo = structure("SubmitInfo", *HEAD, ("waits", U32), ("semaphores", Handle), ("stages", Handle),
                       ("count", U32), ("commands", Handle), ("signals", U32), ("signalled", Handle))  # fmt: skip
# VkStructureType
TYPES = {
    ApplicationInfo: 0, InstanceInfo: 1, QueueInfo: 2, DeviceInfo: 3, SubmitInfo: 4, AllocateInfo: 5, BufferInfo: 12,
    ShaderInfo: 16, StageInfo: 18, PipelineInfo: 29, LayoutInfo: 30, SetLayoutInfo: 32, PoolInfo: 33, SetInfo: 34,
    Write: 35, CommandPoolInfo: 39, CommandsInfo: 40, BeginInfo: 42,
}  # fmt: skip
STORAGE_BUFFER, COMPUTE = 7, 0x20
PROPERTIES_BYTES, DEVICE_TYPE_OFFSET, CPU_DEVICE = 4096, 16, 4
FEATURES = 55
"""The number of fields of VkPhysicalDeviceFeatures."""


class VulkanError(RuntimeError):
    """Vulkan refused a call, or there is no device."""


def made(kind, **fields):
    return kind(sType=TYPES[kind], **fields)


def pointer(value):
    return ctypes.cast(ctypes.pointer(value), Handle)


@dataclass
class Buffer:
    handle: Handle
    memory: int
    size: int


class VulkanCpu:
    """The first device that is a CPU; raises `VulkanError` if there is none."""

    def __init__(self):
        name = ctypes.util.find_library("vulkan")
        if name is None:
            raise VulkanError("libvulkan is not here")
        self.library = ctypes.CDLL(name)
        application = made(ApplicationInfo, api=(1 << 22) | (1 << 12))
        self.instance = self.create("Instance", made(InstanceInfo, app=pointer(application)), owner=None)
        self.device_of_cpu = self.find()
        features = (U32 * FEATURES)()
        self.library.vkGetPhysicalDeviceFeatures(self.device_of_cpu, features)
        queue = made(QueueInfo, count=1, priorities=pointer(ctypes.c_float(1)))
        information = made(DeviceInfo, queues=1, queue_infos=pointer(queue), features=ctypes.cast(features, Handle))
        self.device = self.create("Device", information, owner=self.device_of_cpu)
        self.queue = Handle()
        self.library.vkGetDeviceQueue(self.device, 0, 0, ctypes.byref(self.queue))

    def find(self):
        count = U32(8)
        devices = (Handle * 8)()
        self.call("EnumeratePhysicalDevices", self.instance, ctypes.byref(count), devices)
        for device in devices[: count.value]:
            properties = ctypes.create_string_buffer(PROPERTIES_BYTES)
            self.library.vkGetPhysicalDeviceProperties(Handle(device), properties)
            if U32.from_buffer(properties, DEVICE_TYPE_OFFSET).value == CPU_DEVICE:
                return Handle(device)
        raise VulkanError("no device is a CPU")

    def call(self, name, *arguments):
        if (status := getattr(self.library, f"vk{name}")(*arguments)) != 0:
            raise VulkanError(f"vk{name} gave {status}")

    def create(self, name, information, owner):
        handle = Handle()
        arguments = (ctypes.byref(information), None, ctypes.byref(handle))
        self.call(f"Create{name}", *arguments if owner is None else (owner, *arguments))
        return handle

    def buffer(self, size):
        handle = self.create("Buffer", made(BufferInfo, size=max(4, size), usage=0x20), self.device)
        needs = Requirements()
        self.library.vkGetBufferMemoryRequirements(self.device, handle, ctypes.byref(needs))
        allocation = Handle()
        # All memory of a CPU is one that the host sees.
        kind = (needs.types & -needs.types).bit_length() - 1
        information = made(AllocateInfo, size=needs.size, type=kind)
        self.call("AllocateMemory", self.device, ctypes.byref(information), None, ctypes.byref(allocation))
        self.call("BindBufferMemory", self.device, handle, allocation, U64(0))
        mapped = Handle()
        self.call("MapMemory", self.device, allocation, U64(0), U64(needs.size), 0, ctypes.byref(mapped))
        return Buffer(handle, mapped.value, max(4, size))

    def run(self, words, entry, buffers, groups):
        """Run a module with these buffers as bindings 0, 1… and wait for it."""
        code = ctypes.create_string_buffer(words, len(words))
        shader = self.create("ShaderModule", made(ShaderInfo, size=len(words), code=pointer(code)), self.device)
        bindings = (Binding * len(buffers))(*[Binding(n, STORAGE_BUFFER, 1, COMPUTE) for n in range(len(buffers))])
        set_information = made(SetLayoutInfo, count=len(buffers), bindings=ctypes.cast(bindings, Handle))
        set_layout = self.create("DescriptorSetLayout", set_information, self.device)
        layout_information = made(LayoutInfo, sets=1, set_layouts=pointer(set_layout))
        layout = self.create("PipelineLayout", layout_information, self.device)
        stage = made(StageInfo, stage=COMPUTE, module=shader, name=entry.encode())
        information = made(PipelineInfo, stage=stage, layout=layout)
        pipeline = Handle()
        arguments = (self.device, None, 1, ctypes.byref(information), None, ctypes.byref(pipeline))
        self.call("CreateComputePipelines", *arguments)
        descriptors = self.descriptors(buffers, set_layout)
        self.submit(pipeline, layout, descriptors, groups)

    def descriptors(self, buffers, set_layout):
        size = PoolSize(STORAGE_BUFFER, len(buffers))
        pool = self.create("DescriptorPool", made(PoolInfo, sets=1, sizes=1, pool_sizes=pointer(size)), self.device)
        descriptors = Handle()
        information = made(SetInfo, pool=pool, count=1, layouts=pointer(set_layout))
        self.call("AllocateDescriptorSets", self.device, ctypes.byref(information), ctypes.byref(descriptors))
        ranges = [BufferRange(buffer.handle, 0, buffer.size) for buffer in buffers]
        writes = [made(Write, set=descriptors, binding=n, count=1, type=STORAGE_BUFFER, buffers=pointer(each))
                  for n, each in enumerate(ranges)]  # fmt: skip
        self.library.vkUpdateDescriptorSets(self.device, len(writes), (Write * len(writes))(*writes), 0, None)
        return descriptors

    def submit(self, pipeline, layout, descriptors, groups):
        pool = self.create("CommandPool", made(CommandPoolInfo), self.device)
        commands = Handle()
        information = made(CommandsInfo, pool=pool, count=1)
        self.call("AllocateCommandBuffers", self.device, ctypes.byref(information), ctypes.byref(commands))
        self.call("BeginCommandBuffer", commands, ctypes.byref(made(BeginInfo)))
        self.library.vkCmdBindPipeline(commands, 1, pipeline)
        sets = ctypes.byref(descriptors)
        self.library.vkCmdBindDescriptorSets(commands, 1, layout, 0, 1, sets, 0, None)
        self.library.vkCmdDispatch(commands, *groups)
        self.call("EndCommandBuffer", commands)
        submission = made(SubmitInfo, count=1, commands=pointer(commands))
        self.call("QueueSubmit", self.queue, 1, ctypes.byref(submission), None)
        self.call("QueueWaitIdle", self.queue)


def filled(device, array):
    """Return a buffer with the bytes of an array."""
    buffer = device.buffer(array.nbytes)
    ctypes.memmove(buffer.memory, np.ascontiguousarray(array).ctypes.data, array.nbytes)
    return buffer


def content(buffer, like):
    """Return what a buffer holds, in the shape and dtype of an array."""
    out = np.empty_like(like)
    ctypes.memmove(out.ctypes.data, buffer.memory, out.nbytes)
    return out
