"""Stands for CuPy where there is no GPU: the same kernels, compiled by the C++ compiler, one thread after the other."""

import ctypes
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from threading import Lock
from types import MappingProxyType, ModuleType, SimpleNamespace

import numpy as np

from truewood._engines import cuda_device

TYPES = {
    "int32": ctypes.c_int,
    "int64": ctypes.c_longlong,
    "uint32": ctypes.c_uint,
    "uint64": ctypes.c_ulonglong,
    "float64": ctypes.c_double,
}


class HostArray(np.ndarray):
    """An array that counts as one on a GPU."""

    __cuda_array_interface__ = "none"
    device = SimpleNamespace(id=0)

    @property
    def data(self):
        assert self.flags.c_contiguous
        return SimpleNamespace(ptr=self.ctypes.data)

    def get(self, out=None):
        copied = np.array(self, copy=True, subok=False)
        if out is None:
            return copied
        out[...] = copied
        return out

    def set(self, values, stream=None):  # noqa: ARG002
        self[...] = values


def as_host_array(values, **options):
    return np.array(values, **options).view(HostArray)


class Module:
    """What CuPy's RawModule is: kernels by name."""

    def __init__(self, code, options):
        folder = Path(tempfile.mkdtemp())
        (folder / "kernels.cpp").write_text(code)
        real = next(option for option in options if option.startswith("-DREAL="))
        command = ["c++", "-O1", "-std=c++17", "-ffp-contract=off", "-shared", "-fPIC", real, "-w"]
        command += [f"-I{Path(__file__).parent}", str(folder / "kernels.cpp"), "-o", str(folder / "kernels.so")]
        subprocess.run(command, check=True)
        self._library = ctypes.CDLL(str(folder / "kernels.so"))
        self._working = Lock()
        shutil.rmtree(folder)

    def get_function(self, name):
        function = getattr(self._library, name)

        def launch(grid, block, arguments, shared_mem=0):
            assert grid[1] < 1 << 16
            shared = np.full(shared_mem + 64, 0x5A, dtype=np.uint8)
            passed = [_pass(value) for value in arguments]
            with self._working:  # which block is run is the same for all threads
                self._run(function, passed, grid, block, shared)
            assert (shared[shared_mem:] == 0x5A).all(), f"{name} writes beyond its shared memory"

        return SimpleKernel(launch)

    def _run(self, function, passed, grid, block, shared):
        for y in range(grid[1]):
            for x in range(grid[0]):
                self._library.set_launch(x, y, *grid, block[0], shared.ctypes.data_as(ctypes.c_void_p))
                function(*passed)


class SimpleKernel:
    def __init__(self, launch):
        self._launch = launch
        self.max_dynamic_shared_size_bytes = 48 << 10

    def __call__(self, grid, block, arguments, shared_mem=0):
        assert shared_mem <= self.max_dynamic_shared_size_bytes
        self._launch(grid, block, arguments, shared_mem)


def _pass(value):
    if isinstance(value, np.ndarray) and value.dtype.fields is not None:
        return _find_type(value.dtype).from_buffer_copy(value)
    if isinstance(value, np.ndarray):
        assert isinstance(value, HostArray), "an array of the host is passed to the GPU"
        assert value.flags.c_contiguous
        return ctypes.c_void_p(value.ctypes.data)
    if isinstance(value, np.intp) and value == 0:
        return ctypes.c_longlong(0)  # no array
    return TYPES[value.dtype.name](value)


@cache
def _find_type(dtype):
    """The type of ctypes that is passed as C passes a field or a struct."""
    if dtype.fields is None:
        return TYPES[dtype.name]
    fields = [(name, _find_type(part)) for name, (part, _) in dtype.fields.items()]
    struct = type("Struct", (ctypes.Structure,), {"_fields_": fields})
    assert ctypes.sizeof(struct) == dtype.itemsize
    return struct


class Stream:
    def __init__(self, **_options):
        pass

    def wait_event(self, _event):
        pass

    def synchronize(self):
        pass

    def record(self, _stream=None):
        pass


class Device:
    attributes = MappingProxyType({"MaxSharedMemoryPerBlockOptin": 227 << 10})
    mem_info = (1 << 30, 1 << 30)
    id = 0

    def __init__(self, number=0):
        assert number == 0

    def __enter__(self):
        pass

    def __exit__(self, *_error):
        pass


def make_cupy():
    cupy = ModuleType("cupy")
    cupy.__spec__ = ModuleSpec("cupy", None)
    for name in ("zeros", "empty", "ones", "full", "abs", "rint", "concatenate", "bincount", "where", "sort"):
        call = getattr(np, name)
        setattr(cupy, name, lambda *args, call=call, **options: call(*args, **options).view(HostArray))
    cupy.asarray = lambda values: values if isinstance(values, HostArray) else as_host_array(values)
    cupy.ascontiguousarray = lambda values, dtype: np.ascontiguousarray(values, dtype=dtype).view(HostArray)
    cupy.RawModule = Module
    cupy.get_default_memory_pool = lambda: SimpleNamespace(free_bytes=lambda: 0)
    cupy.cuda = SimpleNamespace(
        Stream=Stream,
        Event=Stream,
        get_current_stream=Stream,
        Device=Device,
        runtime=SimpleNamespace(getDeviceCount=lambda: 1, CUDARuntimeError=OSError),
    )
    return cupy


@contextmanager
def stand_for_cupy():
    """Have CuPy stand-ins imported within."""
    cupy, cupyx = make_cupy(), ModuleType("cupyx")
    cupyx.empty_pinned = np.empty
    before = {name: sys.modules.get(name) for name in ("cupy", "cupyx")}
    sys.modules.update(cupy=cupy, cupyx=cupyx)
    cuda_device._try_device.cache_clear()
    cuda_device._compile.cache_clear()
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
        cuda_device._try_device.cache_clear()
        cuda_device._compile.cache_clear()
