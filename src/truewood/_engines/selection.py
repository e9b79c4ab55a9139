"""The engine in use: selected by the caller, by TRUEWOOD_ENGINE, or by what is installed."""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

from truewood._arguments import is_choice
from truewood._engines.engine import Engine
from truewood._exceptions import DeviceMemoryError, NativeEngineWarning
from truewood._formatting import quote
from truewood._inputs.table_types import is_on_device

ENGINE_VARIABLE = "TRUEWOOD_ENGINE"
ENGINES = ("native", "numpy", "cuda")
AUTO = "auto"

P = ParamSpec("P")
T = TypeVar("T")

_in_use: ContextVar[Engine | None] = ContextVar("engine", default=None)


def get_engine() -> Engine:
    """Return the engine in use: the caller's, or the default of the environment."""
    return _in_use.get() or resolve_engine()


@contextmanager
def use_engine(engine: Engine | str) -> Iterator[None]:
    """Use an engine within the context, "auto" for the one in use; turn errors about GPU memory into one line."""
    if not isinstance(engine, Engine):
        engine = get_engine() if is_choice(engine, [AUTO]) else resolve_engine(engine)
    token = _in_use.set(engine)
    try:
        yield
    except MemoryError as error:
        if type(error).__name__ != "OutOfMemoryError":  # CuPy's
            raise
        raise DeviceMemoryError(
            "the GPU has too little memory for these rows and trees; pass fewer rows, or engine='native'."
        ) from error
    finally:
        _in_use.reset(token)


def keep_engine(function: Callable[P, T]) -> Callable[P, T]:
    """Wrap a function so that other threads run it with the engine and the device in use here."""
    engine = get_engine()
    enter_device = engine.keep_device()

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> T:
        with use_engine(engine), enter_device():
            return function(*args, **options)

    return call


def place_rows(X: Any, name: str) -> tuple[Any, Engine]:
    """Return X in memory that the engine reads, and the engine.

    "auto" selects the GPU if X is already there, unless TRUEWOOD_ENGINE is set.
    """
    problem = None
    if is_choice(name, [AUTO]) and is_on_device(X) and ENGINE_VARIABLE not in os.environ:
        problem = _find_cuda_problem()
        if problem is None:
            return X, resolve_engine("cuda")
    engine = get_engine() if is_choice(name, [AUTO]) else resolve_engine(name)
    if is_on_device(X):
        X = engine.place_rows(X, "" if problem is None else f", because {problem}")
    return X, engine


def was_selected_for(X: Any, name: str) -> bool:
    """Whether "auto" selected the GPU because X is there."""
    return is_choice(name, [AUTO]) and is_on_device(X)


def place_on_host(X: Any, reason: str) -> tuple[Any, Engine]:
    """Return X in host memory and the native engine, with a warning that gives the reason."""
    engine = resolve_engine("native")
    return engine.place_rows(X, f", because {reason}"), engine


def resolve_engine(name: str | None = None) -> Engine:
    """Return an engine by name; None selects TRUEWOOD_ENGINE, or else native if it is installed."""
    source = "engine"
    if name is None:
        name, source = os.environ.get(ENGINE_VARIABLE, "native" if has_native_engine() else "numpy"), ENGINE_VARIABLE
    check_engine(name, source)
    if name != "numpy" and not has_native_engine():
        raise ValueError(
            f"{source}={quote(name)} needs the compiled kernel, which is not installed; install a C++17 compiler and "
            f"reinstall truewood, or use 'numpy'."
        )
    if name == "cuda" and (problem := _find_cuda_problem()) is not None:
        raise ValueError(f"{source}='cuda' needs a GPU, but {problem}. For the CPU, use {source}='native'.")
    if not has_native_engine():
        _warn_once()
    return _make_engine(name)


def check_engine(name: Any, source: str = "engine") -> None:
    """Refuse anything but the name of an engine or, as an argument, "auto"."""
    choices = (AUTO, *ENGINES) if source == "engine" else ENGINES
    if not is_choice(name, choices):
        raise ValueError(f"{source} must be one of {', '.join(map(repr, choices))}, got {quote(name)}.")


@cache
def _make_engine(name: str) -> Engine:
    # Imported here because CuPy and the kernel are optional.
    if name == "cuda":
        from truewood._engines.cuda_engine import CudaEngine

        return CudaEngine()
    if name == "native":
        from truewood._engines.native_engine import NativeEngine

        return NativeEngine()
    from truewood._engines.numpy_engine import NumpyEngine

    return NumpyEngine()


def has_native_engine() -> bool:
    """Whether the compiled kernel is installed."""
    return importlib.util.find_spec("truewood._engines._kernel") is not None


def _find_cuda_problem() -> str | None:
    """Return a clause on why the GPU cannot be used; None if it can."""
    if not has_native_engine():
        return "the compiled kernel is not installed"
    from truewood._engines.cuda_device import find_problem

    return find_problem()


def describe_engines() -> dict[str, str]:
    """Return the name of the engine in use, and the GPU or why it is not used."""
    from truewood._engines.cuda_device import describe_device, find_problem

    problem = find_problem()
    return {
        "engine": get_engine().name,
        "GPU": describe_device() if problem is None else f"not used: {problem}",
    }


@cache
def _warn_once() -> None:
    warnings.warn(
        "the compiled kernel is not installed, so the slower numpy engine is in use; to change that, install a C++17 "
        "compiler and reinstall truewood.",
        NativeEngineWarning,
        stacklevel=3,
    )
