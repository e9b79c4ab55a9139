"""Try to load a model file in a child process: some libraries crash on damaged files.

Their loaders trust numbers in the file when they read and allocate memory, and a wrong one raises no exception.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

from truewood.tabular._errors import UnusableModelError

# Largest size of a model in memory, in bytes, absolute and relative to its file.
_LARGEST_MODEL = 4 * 2**30
_LARGEST_RATIO = 100
# Time limit in seconds, and more for each MB; libraries take less than a tenth of it.
_SECONDS, _SECONDS_PER_MB = 120.0, 5.0


def find_damage(path: Path, library: str) -> str | None:
    """Load a file and read its trees in a child process.

    Parameters
    ----------
    path : Path
        The file.
    library : {"XGBoost", "LightGBM", "CatBoost"}
        The library of the model.

    Returns
    -------
    str or None
        What is wrong: a predicate whose subject is the file name; None if nothing is.
    """
    # -P does not search the working directory for modules: models often lie next to unknown files.
    program = "import sys; from truewood.tabular._models.loading import report_damage; report_damage(*sys.argv[1:])"
    command = [sys.executable, "-P", "-c", program, library, os.path.abspath(path)]
    # On machines with many cores, unused threads would use up the limited memory.
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    variables = os.environ | one_thread | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    seconds = _SECONDS + _SECONDS_PER_MB * path.stat().st_size / 1e6
    try:
        ended = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=variables, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return f"was not loaded by {library} within {seconds:.0f} seconds: the file is damaged; save the model again."
    if ended.returncode != 0:
        version = import_module(library.lower()).__version__
        return (
            f"makes {library} crash: the file is damaged, or {library} {version} cannot read it; save the model again."
        )
    return ended.stdout.decode("utf-8") or None


def limit_memory(file_size: int) -> None:
    """Make this process fail if it allocates far more memory than a file of this size needs, where possible."""
    if sys.platform != "win32":
        import resource

        n_bytes = max(_LARGEST_MODEL, _LARGEST_RATIO * file_size)
        hardest = resource.getrlimit(resource.RLIMIT_DATA)[1]
        limit = n_bytes if hardest == resource.RLIM_INFINITY else min(n_bytes, hardest)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hardest))


def describe_damage(error: Exception, library: str) -> str:
    """Describe what is wrong with a file: a predicate whose subject is its name."""
    if isinstance(error, UnusableModelError):
        return str(error)
    reason = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
    article = "an" if library.startswith("X") else "a"
    return f"cannot be read as {article} {library} model: {reason}. Save the model again."
