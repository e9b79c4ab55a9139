"""The console script ``truewood``: what has to be in place before the package is imported.

``import truewood`` loads numpy, scikit-learn and more, which takes a second or two and a few hundred megabytes. This
module is not part of the package, so that Ctrl-C, a closed stream and a lack of memory are handled during that time.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import NoReturn


def main() -> int:
    """Run the command line and return its exit code; see `truewood._cli.main`."""
    _open_closed_streams()
    # Jobs in the background ignore Ctrl-C, and go on doing so.
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
            signal.signal(signal.SIGINT, signal.default_int_handler)  # which the command line replaces by its own
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
    """End the process at once: while modules are loaded, an exception could be lost or become another one."""
    del number, frame
    os.write(2, b"truewood: stopped\n")
    os._exit(130)


def _explain(error: BaseException) -> str:
    """Why the package could not be loaded, in one line: the first error, which led to the others."""
    while (earlier := error.__cause__ or error.__context__) is not None:
        error = earlier
    reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return (
        f"truewood cannot be loaded ({reason}); allow the process more memory if that is limited (ulimit -v), or "
        "install truewood again. python -c 'import truewood' shows the details."
    )


if __name__ == "__main__":
    sys.exit(main())
