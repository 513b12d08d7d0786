"""Prepared launches: everything but the addresses of tensors is decided once and packed once."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor

from loomgen.errors import LoomgenError
from loomgen.registry import KernelEntry
from loomgen.runtime.bind import BoundCall, Value, bind
from loomgen.runtime.kernels import DeviceKernels
from loomgen.runtime.parameters import Number, ParameterBlock, is_pointer
from loomgen.runtime.resident import ResidentTables
from loomgen.runtime.tensor_maps import Encoder, MappedTensor


class PreparedLaunch:
    """One kernel on one device with its parameters packed in ``block``."""

    __slots__ = (
        "_blocks",
        "_device",
        "_driver",
        "_function",
        "_shared_bytes",
        "_threads",
        "block",
        "kernel",
        "maps",
        "pointers",
    )

    def __init__(self, call: BoundCall, kernels: DeviceKernels) -> None:
        """``pointers``: the names of the pointers that are not null; ``maps``: the tensor maps. Raises LoomgenError for
        too large a grid.
        """
        launch = call.kernel.launch
        if call.blocks > kernels.target.max_grid_x:
            raise LoomgenError(
                f"{call.kernel.name}: {call.blocks} blocks, and a launch has at most {kernels.target.max_grid_x}: "
                "pass fewer sequences or tokens at a time"
            )
        self.kernel = call.kernel
        self.maps = tuple(_maps(call, kernels.driver))
        numbers = {a.name: _number(value) for a, value in call.values}
        places = {mapped.name: ctypes.addressof(mapped.memory) for mapped in self.maps}
        self.block = ParameterBlock(call.kernel.arguments, numbers, places)
        self.pointers = tuple(a.name for a, value in call.values if is_pointer(a) and value is not None)
        self._driver = kernels.driver
        self._device = kernels.device
        self._function = kernels.function(call.kernel)
        self._blocks = call.blocks
        self._threads = launch.threads
        self._shared_bytes = launch.dynamic_shared_bytes

    @property
    def tensors(self) -> tuple[str, ...]:
        """The names of the tensors whose addresses the launch depends on."""
        return (*self.pointers, *(mapped.tensor for mapped in self.maps))

    def launch(self, stream: int) -> None:
        """Enqueues the kernel with the parameters as they are now; an empty grid is no launch."""
        if self._blocks == 0:
            return
        self._driver.launch(
            self._function,
            blocks=self._blocks,
            threads=self._threads,
            shared_bytes=self._shared_bytes,
            parameters=self.block.address,
            stream=stream,
            device=self._device,
        )


class LaunchPlan:
    """Launches that follow each other on one stream, for calls that differ in nothing but their tensors' addresses.

    ``names`` are the tensors whose addresses a call passes, in that order; the others, the tables, belong to the plan.
    ``captured`` becomes true with the first call that a CUDA graph records: such a graph reads the plan's tables
    whenever it is replayed, so the plan must not be dropped while it may be.
    """

    def __init__(self, kernels: DeviceKernels, launches: Sequence[PreparedLaunch], tables: ResidentTables) -> None:
        used = dict.fromkeys(name for launch in launches for name in launch.tensors)
        self.names = tuple(name for name in used if name not in tables.tensors)
        self.captured = False
        self._launches = tuple(launches)
        self._tables = tables
        self._device = kernels.device
        self._driver = kernels.driver
        self._on_device = kernels.driver.on(kernels.device)
        self._lock = threading.Lock()
        self._addresses: Any = (ctypes.c_uint64 * len(self.names))()
        maps = [mapped for launch in launches for mapped in launch.maps]
        self._maps = tuple((mapped, self.names.index(mapped.tensor)) for mapped in maps)
        _share_addresses(self._launches, self.names, ctypes.addressof(self._addresses))

    def run(self, addresses: list[int]) -> None:
        """Launches on torch's current stream of the device; ``addresses`` are those of ``names``.

        Allocates nothing and waits for nothing, so that a CUDA graph can record it. Raises DriverError.
        """
        with self._lock, self._on_device:
            stream = self._driver.current_stream(self._device)
            if self._driver.capturing(self._device, stream):
                self.captured = True
            else:
                self._tables.used_on(stream)
            self._addresses[:] = addresses
            for mapped, place in self._maps:
                mapped.point_to(addresses[place])
            for launch in self._launches:
                launch.launch(stream)


def _share_addresses(launches: Sequence[PreparedLaunch], names: Sequence[str], start: int) -> None:
    """Lets all launches read the address of each of ``names`` in one word, so that a call writes it once."""
    words = {name: start + i * ctypes.sizeof(ctypes.c_uint64) for i, name in enumerate(names)}
    for launch in launches:
        for name in launch.pointers:
            if name in words:
                launch.block.read_from(name, words[name])


def prepare_plan(
    kernels: DeviceKernels, stages: Sequence[KernelEntry], given: Mapping[str, Value], tables: ResidentTables
) -> LaunchPlan:
    """The plan of ``stages``, in order, for calls whose tensors have the shapes, strides and dtypes of ``given``.

    ``given`` holds tensors and scalars by name; an optional tensor that is None stays null. Nothing is launched.
    Raises ValueError (see :func:`~loomgen.runtime.bind.bind`), LoomgenError while a graph is being recorded, and what
    building and loading raise.
    """
    refuse_recording(kernels)
    calls = [bind(stage, {**given, **tables.tensors}) for stage in stages]
    kernels.prepare(stages)
    return LaunchPlan(kernels, [PreparedLaunch(call, kernels) for call in calls], tables)


def refuse_recording(kernels: DeviceKernels) -> None:
    """Raises LoomgenError while a graph is being recorded: making a plan uploads, loads and may build."""
    driver, device = kernels.driver, kernels.device
    with driver.on(device):
        recording = driver.capturing(device, driver.current_stream(device))
    if recording:
        raise LoomgenError(
            "a call of new shapes or lengths cannot be recorded into a CUDA graph: make it once before the capture"
        )


def _maps(call: BoundCall, encoder: Encoder) -> Iterator[MappedTensor]:
    for argument, value in call.values:
        if argument.kind == "tensor_map":
            assert isinstance(value, Tensor)
            yield MappedTensor(argument, value, encoder)


def _number(value: Value) -> Number:
    match value:
        case None:
            return 0
        case Tensor():
            return value.data_ptr()
        case _:
            return value
