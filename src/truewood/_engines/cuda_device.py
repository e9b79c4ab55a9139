"""The GPU: whether there is one to use, its compiled kernels, and rows copied to it."""

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

THREADS = 256
# The limit of CUDA.
MOST_GRID_Y = (1 << 16) - 1
# Threads that copy rows into pinned memory, and bytes per copy.
_COPIERS = 4
_COPY_BYTES = 1 << 26
# Smaller copies are not worth pinned memory, which CuPy keeps.
_PINNED_BYTES = 1 << 22
# Rows stay on the GPU for the next pass if they take at most this share of its free memory.
_KEPT_SHARE = 0.5

_kept: WeakKeyDictionary[FeatureMatrix, Any] = WeakKeyDictionary()
_bringing = Lock()


def find_problem() -> str | None:
    """Why the GPU cannot be used, as the rest of a sentence; None where it can."""
    if find_spec("cupy") is None:
        return "CuPy is not installed; pip install 'truewood[cuda12]' or 'truewood[cuda13]', as the driver's CUDA is"
    try:
        _try_device()
    except Exception as error:  # CuPy raises errors of many types: no driver, an old one, libraries that are missing
        return f"the GPU cannot be used: {type(error).__name__}: {error}"
    return None


@cache
def _try_device() -> None:
    import cupy

    if cupy.cuda.runtime.getDeviceCount() == 0:
        raise RuntimeError("there is none")
    cupy.zeros(1).sum()


def keep_device() -> Callable[[], Any]:
    """Return what another thread enters to use the GPU in use here."""
    import cupy

    number = cupy.cuda.Device().id
    return lambda: cupy.cuda.Device(number)


def describe_device() -> str:
    """Name of the GPU, and versions of its driver and of CuPy."""
    import cupy

    runtime = cupy.cuda.runtime
    name = runtime.getDeviceProperties(cupy.cuda.Device().id)["name"].decode()
    driver, built = runtime.driverGetVersion(), runtime.runtimeGetVersion()
    return f"{name} (driver for CUDA {_spell(driver)}, CuPy {cupy.__version__} with CUDA {_spell(built)})"


def _spell(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


@cache
def _compile(real: str) -> Any:
    """The kernels for rows of a type; CuPy keeps what it has compiled on disk."""
    import cupy

    source = (Path(__file__).parent / "kernel" / "cuda_kernels.cuh").read_text(encoding="utf-8")
    return cupy.RawModule(code=source, options=("-std=c++17", "--fmad=false", f"-DREAL={real}"))


def run_kernel(
    name: str, dtype: Any, grid: tuple[int, int], arguments: list[Any], *, shared: int = 0, threads: int = THREADS
) -> None:
    """Start a kernel for rows of a type; None is no array."""
    kernel = _compile("float" if dtype == np.float32 else "double").get_function(name)
    if shared > 48 << 10:
        kernel.max_dynamic_shared_size_bytes = shared
    kernel(grid, (threads,), tuple(np.intp(0) if value is None else value for value in arguments), shared_mem=shared)


def find_shared_memory() -> int:
    """Bytes of shared memory that a block may use."""
    import cupy

    return int(cupy.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"])


def find_memory() -> int:
    """Memory of the GPU in bytes."""
    import cupy

    return int(cupy.cuda.Device().mem_info[1])


def find_free_memory() -> int:
    """Free memory of the GPU in bytes, including what CuPy holds for reuse."""
    import cupy

    return int(cupy.cuda.Device().mem_info[0] + cupy.get_default_memory_pool().free_bytes())


def empty_pinned(shape: tuple[int, ...], dtype: Any = np.float64) -> NDArray[Any]:
    """Allocate an array in pinned memory, which the GPU reads and writes fast; CuPy reuses the memory."""
    import cupy
    import cupyx

    try:
        array: NDArray[Any] = cupyx.empty_pinned(shape, dtype=dtype)
    except cupy.cuda.runtime.CUDARuntimeError as error:
        n_bytes = np.prod(shape) * np.dtype(dtype).itemsize
        raise MemoryError(f"the host has no {n_bytes:,} bytes of memory that the GPU may read.") from error
    return array


def make_zeros(shape: tuple[int, ...], dtype: Any = np.float64) -> Any:
    """Zeros on the GPU."""
    import cupy

    return cupy.zeros(shape, dtype=dtype)


def put(values: NDArray[Any] | None) -> Any:
    """A copy on the GPU."""
    import cupy

    if values is None:
        return None
    copied = cupy.empty(values.shape, dtype=values.dtype)
    copied.set(np.ascontiguousarray(values))
    cupy.cuda.get_current_stream().synchronize()  # the source may be overwritten from here on
    return copied


def fetch(values: Any) -> NDArray[Any]:
    """A copy in the host's memory."""
    copied: NDArray[Any]
    copied = values.get() if values.nbytes < _PINNED_BYTES else values.get(out=empty_pinned(values.shape, values.dtype))
    return copied


def bring_rows(matrix: FeatureMatrix) -> Any:
    """All rows on the GPU; None where they are in the host's memory and would take most of the GPU's."""
    with _bringing:  # one thread copies, the others find the copy
        if matrix.is_on_device:
            return matrix.values
        if matrix not in _kept and _fits(matrix):
            for _ in iterate_rows(matrix, 0, matrix.n_rows):
                pass
        return _kept.get(matrix)


def _fits(matrix: FeatureMatrix) -> bool:
    n_bytes = matrix.n_rows * matrix.values.shape[1] * matrix.values.dtype.itemsize
    return bool(n_bytes <= _KEPT_SHARE * find_free_memory())


def iterate_rows(matrix: FeatureMatrix, start: int, stop: int) -> Iterator[tuple[int, Any]]:
    """Blocks of rows on the GPU, each with the number of its first row.

    Rows that are there already are one block. Others are copied block by block, while the GPU works on the block
    before, and stay there for the next time if there is room. Sparse rows are made dense block by block.
    """
    import cupy

    values, n_features = matrix.values, matrix.values.shape[1]
    on_device = values if matrix.is_on_device else _kept.get(matrix)
    if on_device is not None:
        yield start, on_device[start:stop]
        return
    n_rows = max(1, min(stop - start, _COPY_BYTES // max(1, n_features * values.dtype.itemsize)))
    keeps = start == 0 and stop == matrix.n_rows and _fits(matrix)
    room = cupy.empty((matrix.n_rows if keeps else 2 * n_rows, n_features), dtype=values.dtype)
    yield from _copy_blocks(matrix, start, stop, n_rows, room, keeps=keeps)
    if keeps:
        _kept[matrix] = room


def _copy_blocks(
    matrix: FeatureMatrix, start: int, stop: int, n_rows: int, room: Any, *, keeps: bool
) -> Iterator[tuple[int, Any]]:
    """Copy blocks by a stream of their own, each in its place, or in one of two places in turn."""
    import cupy

    stream, current = cupy.cuda.Stream(non_blocking=True), cupy.cuda.get_current_stream()
    staged = [empty_pinned((n_rows, room.shape[1]), room.dtype) for _ in range(2)]
    copied, used = ([cupy.cuda.Event(disable_timing=True) for _ in range(2)] for _ in range(2))
    for event in used:
        event.record(current)  # earlier work may still use the memory that `room` was given
    with ThreadPoolExecutor(_COPIERS) as pool:
        for number, first in enumerate(range(start, stop, n_rows)):
            turn, n_here = number % 2, min(n_rows, stop - first)
            copied[turn].synchronize()  # until then the staged rows are in use
            _stage(matrix, first, staged[turn][:n_here], pool)
            place = first if keeps else turn * n_rows
            block = room[place : place + n_here]
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
