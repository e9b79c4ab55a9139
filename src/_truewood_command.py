"""The console script ``truewood``: handle Ctrl-C, closed streams and lack of memory while the package is imported.

``import truewood`` loads numpy, scikit-learn and more, which takes a second or two and a few hundred megabytes. This
module is outside the package, so that it is in place before these imports.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

# Imports take seconds, and much longer from a cold disk.
_STARTING = "truewood: starting; the first time takes up to a minute\n"


def main() -> int:
    """Run the command line and return its exit code; see `truewood._cli.main`."""
    _open_closed_streams()
    if sys.argv[1:2] == ["app"] and sys.stderr.isatty():
        sys.stderr.write(_STARTING)
    # Background jobs ignore Ctrl-C; leave that unchanged.
    can_interrupt = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    try:
        if can_interrupt:
            signal.signal(signal.SIGINT, _stop)
        try:
            from truewood._cli import main as run
        except Exception as error:
            sys.stderr.write(f"truewood: error: {_explain(error)}\n")
            return 2
        if can_interrupt:
            signal.signal(signal.SIGINT, signal.default_int_handler)  # the command line installs its own handler
        try:
            return run()
        finally:
            if can_interrupt:
                signal.signal(signal.SIGINT, _stop)  # while Python shuts down
    except KeyboardInterrupt:  # between two handlers
        _stop()


def _open_closed_streams() -> None:
    """Connect closed standard streams to the null device, so that no file or socket is opened in their place."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def _stop(number: int = signal.SIGINT, frame: FrameType | None = None) -> NoReturn:
    """End the process at once: during imports, an exception could be swallowed or replaced."""
    del number, frame
    os.write(2, b"truewood: stopped\n")
    os._exit(130)


def _explain(error: BaseException) -> str:
    """Describe the first error, which caused the others, in one line."""
    while (earlier := error.__cause__ or error.__context__) is not None:
        error = earlier
    reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return (
        f"truewood cannot be imported ({reason}); raise the memory limit if there is one (ulimit -v), or reinstall "
        "truewood. For details, run python -c 'import truewood'."
    )


if __name__ == "__main__":
    sys.exit(main())
