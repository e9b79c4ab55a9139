"""The GPU: whether it can be used, its kernels, and copies to and from its memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from truewood._inputs.tables import FeatureMatrix
from truewood._inputs.target import ClassTarget, Target

THREADS = 256
# CUDA's limit.
MOST_GRID_Y = (1 << 16) - 1
# Threads that copy rows into pinned memory, and bytes per copy.
_COPIERS = 4
_COPY_BYTES = 1 << 26
# Smaller copies are not worth pinned memory, which CuPy never frees.
_PINNED_BYTES = 1 << 22
# Rows stay on the GPU for the next pass if they need at most this share of its free memory.
_KEPT_SHARE = 0.5

_kept: WeakKeyDictionary[FeatureMatrix, Any] = WeakKeyDictionary()
_kept_targets: WeakKeyDictionary[Target, Any] = WeakKeyDictionary()
_copying = Lock()


def find_problem() -> str | None:
    """Return a clause on why the GPU cannot be used; None if it can."""
    if find_spec("cupy") is None:
        return "CuPy is not installed; run pip install 'truewood[cuda12]', or 'truewood[cuda13]' for CUDA 13"
    try:
        _try_device()
    except Exception as error:  # CuPy raises many types: no driver, an old driver, missing libraries
        return f"the GPU cannot be used: {type(error).__name__}: {error}"
    return None


@cache
def _try_device() -> None:
    import cupy

    if cupy.cuda.runtime.getDeviceCount() == 0:
        raise RuntimeError("no GPU was found")
    cupy.zeros(1).sum()


def keep_device() -> Callable[[], Any]:
    """Return a context manager that makes another thread use the current GPU."""
    import cupy

    number = cupy.cuda.Device().id
    return lambda: cupy.cuda.Device(number)


def describe_device() -> str:
    """Return the name of the GPU, and the versions of its driver and of CuPy."""
    import cupy

    runtime = cupy.cuda.runtime
    name = runtime.getDeviceProperties(cupy.cuda.Device().id)["name"].decode()
    driver, built = runtime.driverGetVersion(), runtime.runtimeGetVersion()
    return f"{name} (driver for CUDA {_spell(driver)}, CuPy {cupy.__version__} with CUDA {_spell(built)})"


def _spell(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


@cache
def _compile(real: str) -> Any:
    """Compile the kernels for a type of x; CuPy caches them on disk."""
    import cupy

    source = (Path(__file__).parent / "kernel" / "cuda_kernels.cuh").read_text(encoding="utf-8")
    return cupy.RawModule(code=source, options=("-std=c++17", "--fmad=false", f"-DREAL={real}"))


class Struct:
    """A C struct to pass to a kernel by value.

    It keeps its arrays alive: CuPy would otherwise reuse their memory before the kernel starts.

    Parameters
    ----------
    *fields : array on the GPU, None, NumPy scalar or Struct
        Fields in the order of the struct in cuda_kernels.cuh. Arrays become pointers, None a null pointer.
    """

    def __init__(self, *fields: Any) -> None:
        self._fields = fields
        values = [self._convert(field) for field in fields]
        dtype = np.dtype([(f"f{k}", value.dtype) for k, value in enumerate(values)], align=True)
        # CuPy passes a NumPy array of size one by value.
        self.value = np.zeros(1, dtype=dtype)
        for name, value in zip(dtype.names or (), values, strict=True):
            self.value[name] = value

    @staticmethod
    def _convert(field: Any) -> Any:
        if field is None:
            return np.uint64(0)
        if isinstance(field, Struct):
            return field.value
        return field if isinstance(field, np.generic) else np.uint64(field.data.ptr)


def run_kernel(
    name: str, dtype: Any, grid: tuple[int, int], arguments: list[Any], *, shared: int = 0, threads: int = THREADS
) -> None:
    """Start a kernel for a type of x; None is a null pointer."""
    kernel = _compile("float" if dtype == np.float32 else "double").get_function(name)
    if shared > 48 << 10:
        kernel.max_dynamic_shared_size_bytes = shared
    kernel(grid, (threads,), tuple(map(_pass, arguments)), shared_mem=shared)


def _pass(argument: Any) -> Any:
    if argument is None:
        return np.intp(0)
    return argument.value if isinstance(argument, Struct) else argument


def find_shared_memory() -> int:
    """Return the bytes of shared memory that a block may use."""
    import cupy

    return int(cupy.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"])


def find_memory() -> int:
    """Return the memory of the GPU in bytes."""
    import cupy

    return int(cupy.cuda.Device().mem_info[1])


def find_free_memory() -> int:
    """Return the free memory of the GPU in bytes, including CuPy's pool."""
    import cupy

    return int(cupy.cuda.Device().mem_info[0] + cupy.get_default_memory_pool().free_bytes())


def empty_pinned(shape: tuple[int, ...], dtype: Any = np.float64) -> NDArray[Any]:
    """Allocate an array in pinned memory, which the GPU accesses fast; CuPy reuses the memory."""
    import cupy
    import cupyx

    try:
        array: NDArray[Any] = cupyx.empty_pinned(shape, dtype=dtype)
    except cupy.cuda.runtime.CUDARuntimeError as error:
        n_bytes = np.prod(shape) * np.dtype(dtype).itemsize
        raise MemoryError(f"the host cannot pin {n_bytes:,} bytes of memory for the GPU; pass fewer rows.") from error
    return array


def make_zeros(shape: tuple[int, ...], dtype: Any = np.float64) -> Any:
    """Allocate zeros on the GPU."""
    import cupy

    return cupy.zeros(shape, dtype=dtype)


def put(values: NDArray[Any] | None) -> Any:
    """Copy an array to the GPU."""
    import cupy

    if values is None:
        return None
    copied = cupy.empty(values.shape, dtype=values.dtype)
    copied.set(np.ascontiguousarray(values))
    cupy.cuda.get_current_stream().synchronize()  # the caller may now overwrite the source
    return copied


def fetch(values: Any) -> NDArray[Any]:
    """Copy an array to host memory."""
    copied: NDArray[Any]
    copied = values.get() if values.nbytes < _PINNED_BYTES else values.get(out=empty_pinned(values.shape, values.dtype))
    return copied


def copy_rows(matrix: FeatureMatrix) -> Any:
    """Return all rows on the GPU; None if they are in host memory and would fill most of the GPU's."""
    with _copying:  # one thread copies, the others reuse the copy
        if find_rows(matrix) is None and _fits(matrix):
            for _ in iterate_rows(matrix, 0, matrix.n_rows):
                pass
        return find_rows(matrix)


def find_rows(matrix: FeatureMatrix) -> Any:
    """Return all rows if they are on the GPU already; None otherwise."""
    return matrix.values if matrix.is_on_device else _kept.get(matrix)


def copy_target(target: Target) -> Any:
    """Return the classes or the numbers of all rows on the GPU; they stay there as long as the target exists."""
    with _copying:
        if target not in _kept_targets:
            _kept_targets[target] = put(target.codes if isinstance(target, ClassTarget) else target.numbers)
        return _kept_targets[target]


def _fits(matrix: FeatureMatrix) -> bool:
    n_bytes = matrix.n_rows * matrix.values.shape[1] * matrix.values.dtype.itemsize
    return bool(n_bytes <= _KEPT_SHARE * find_free_memory())


def iterate_rows(matrix: FeatureMatrix, start: int, stop: int) -> Iterator[tuple[int, Any]]:
    """Iterate over blocks of rows on the GPU, each with the number of its first row.

    Rows that are on the GPU already form one block. Others are copied block by block while the GPU processes the
    previous block, and stay there for the next pass if it fits. Sparse rows become dense block by block.
    """
    import cupy

    values, n_features = matrix.values, matrix.values.shape[1]
    on_device = find_rows(matrix)
    if on_device is not None:
        yield start, on_device[start:stop]
        return
    n_rows = max(1, min(stop - start, _COPY_BYTES // max(1, n_features * values.dtype.itemsize)))
    keeps = start == 0 and stop == matrix.n_rows and _fits(matrix)
    buffer = cupy.empty((matrix.n_rows if keeps else 2 * n_rows, n_features), dtype=values.dtype)
    yield from _copy_blocks(matrix, start, stop, n_rows, buffer, keeps=keeps)
    if keeps:
        _kept[matrix] = buffer


def _copy_blocks(
    matrix: FeatureMatrix, start: int, stop: int, n_rows: int, buffer: Any, *, keeps: bool
) -> Iterator[tuple[int, Any]]:
    """Copy blocks in a separate stream, each to its own place or, alternately, to one of two places."""
    import cupy

    stream, current = cupy.cuda.Stream(non_blocking=True), cupy.cuda.get_current_stream()
    staged = [empty_pinned((n_rows, buffer.shape[1]), buffer.dtype) for _ in range(2)]
    copied, used = ([cupy.cuda.Event(disable_timing=True) for _ in range(2)] for _ in range(2))
    for event in used:
        event.record(current)  # earlier work may still use the memory of `buffer`
    with ThreadPoolExecutor(_COPIERS) as pool:
        for number, first in enumerate(range(start, stop, n_rows)):
            turn, n_here = number % 2, min(n_rows, stop - first)
            copied[turn].synchronize()  # the staged rows are in use until then
            _stage(matrix, first, staged[turn][:n_here], pool)
            place = first if keeps else turn * n_rows
            block = buffer[place : place + n_here]
            stream.wait_event(used[turn])
            block.set(staged[turn][:n_here], stream=stream)
            copied[turn].record(stream)
            current.wait_event(copied[turn])
            yield first, block
            used[turn].record(current)
    stream.synchronize()


def _stage(matrix: FeatureMatrix, first: int, into: NDArray[Any], pool: ThreadPoolExecutor) -> None:
    if not isinstance(matrix.values, np.ndarray):
        into[:] = matrix.take(np.arange(first, first + len(into)))
        return
    bounds = np.linspace(0, len(into), _COPIERS + 1).astype(int)
    rows = matrix.values[first : first + len(into)]
    parts = [slice(begin, end) for begin, end in pairwise(bounds)]
    list(pool.map(lambda part: np.copyto(into[part], rows[part]), parts))
