"""Loading a model file in another process first: of a damaged file, loaders of libraries may end the process.

Such a loader reads and asks for memory by numbers in the file, and there is no exception to catch when one of them is
wrong.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

from truewood.adapters import to_ensemble
from truewood.tabular._errors import UnusableModelError
from truewood.tabular._models.saved_boosters import LOADERS

# Bytes that a model may take in memory: so many, or so many times those of its file.
_LARGEST_MODEL = 4 * 2**30
_LARGEST_RATIO = 100
# Seconds that loading may take, and those for each MB; models of libraries take less than a tenth of that.
_SECONDS, _SECONDS_PER_MB = 120.0, 5.0


def find_damage(path: Path, library: str) -> str | None:
    """Load a file and read its trees in another process: what is wrong with it, after its name; None where nothing is.

    Parameters
    ----------
    path : Path
        The file.
    library : str
        Whose model it is; a key of `LOADERS`.
    """
    # The folder that the program runs in is not searched for modules (-P): models often lie beside unknown files.
    program = f"import sys; from {__name__} import report_damage; report_damage(*sys.argv[1:])"
    command = [sys.executable, "-P", "-c", program, library, os.path.abspath(path)]
    # Threads that nobody needs here would take up the memory that there is, on machines of many cores.
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    variables = os.environ | one_thread | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    seconds = _SECONDS + _SECONDS_PER_MB * path.stat().st_size / 1e6
    try:
        ended = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=variables, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return f"is not loaded by {library} within {seconds:.0f} seconds: the file is damaged; save the model again."
    if ended.returncode != 0:
        version = import_module(library.lower()).__version__
        return (
            f"makes {library} crash: the file is damaged, or {library} {version} cannot read it; save the model again."
        )
    return ended.stdout.decode("utf-8") or None


def report_damage(library: str, path: str) -> None:
    """Load a file, and write to standard output what is wrong with it; what libraries print goes elsewhere."""
    output = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="backslashreplace")
    os.dup2(2, 1)
    _limit_memory(max(_LARGEST_MODEL, _LARGEST_RATIO * Path(path).stat().st_size))
    try:
        to_ensemble(LOADERS[library](Path(path)).model)
    except Exception as error:
        output.write(describe_damage(error, library))
    output.close()


def _limit_memory(n_bytes: int) -> None:
    """Make requests for more memory fail, where the system can do that."""
    if sys.platform != "win32":
        import resource

        hardest = resource.getrlimit(resource.RLIMIT_DATA)[1]
        limit = n_bytes if hardest == resource.RLIM_INFINITY else min(n_bytes, hardest)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hardest))


def describe_damage(error: Exception, library: str) -> str:
    """What is wrong with a file, after its name; libraries have exceptions of their own for files they cannot read."""
    if isinstance(error, UnusableModelError):
        return str(error)
    reason = str(error).strip().partition("\n")[0] or type(error).__name__
    return f"cannot be read as a {library} model: {reason}"
