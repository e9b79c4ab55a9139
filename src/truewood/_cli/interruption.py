"""Ctrl-C: one line and the end of the process within a second, whatever a library computes meanwhile."""

from __future__ import annotations

import os
import signal
import socket
import threading
from types import FrameType

from truewood._cli.streams import write_message
from truewood._writing import remove_unfinished

# Seconds for the usual way: an exception, which has to wait until a library comes back.
_PATIENCE = 0.4


class Interruption:
    """What becomes of Ctrl-C while a command runs.

    Python raises KeyboardInterrupt when the main thread next runs a line of Python, which a fit of many rows may not do
    for a while, and some libraries turn it into an error of their own. The system's signal reaches a thread at once.
    """

    def __init__(self) -> None:
        self.has_come = False
        self._is_said = threading.Lock()

    def begin(self) -> None:
        """Listen, unless nobody wants to be interrupted, as in jobs in the background, or others listen already."""
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            hearing, self._telling = socket.socketpair()
            self._telling.setblocking(False)
            signal.signal(signal.SIGINT, self._interrupt)
            signal.set_wakeup_fd(self._telling.fileno(), warn_on_full_buffer=False)
            threading.Thread(target=self._watch, args=[hearing], daemon=True).start()

    def end(self) -> None:
        """Listen no longer; a process that was interrupted ends all the same."""
        if not self.has_come and signal.getsignal(signal.SIGINT) == self._interrupt:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._telling.close()

    def say(self) -> None:
        """Write the line, once."""
        if self._is_said.acquire(blocking=False):
            write_message("truewood: stopped")

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.has_come = True
        raise KeyboardInterrupt

    def _watch(self, hearing: socket.socket) -> None:
        with hearing:
            while mark := hearing.recv(1):
                if mark[0] == signal.SIGINT:
                    threading.Event().wait(_PATIENCE)
                    self.say()
                    try:
                        remove_unfinished()
                    finally:  # where the system does not let go of an open file
                        os._exit(130)
