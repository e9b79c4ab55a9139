"""Handle Ctrl-C: print one line and exit within a second, even while a library computes."""

from __future__ import annotations

import os
import signal
import socket
import threading
from types import FrameType

from truewood._cli.streams import write_message
from truewood._writing import remove_unfinished

# Seconds to wait for KeyboardInterrupt, which is raised only when a library returns.
_PATIENCE = 0.4


class Interruption:
    """Handler of Ctrl-C while a command runs.

    Python raises KeyboardInterrupt when the main thread next executes Python code, which can take long during a fit,
    and some libraries turn it into their own errors. A watcher thread receives the signal at once.
    """

    def __init__(self) -> None:
        self.was_received = False
        self._is_reported = threading.Lock()

    def begin(self) -> None:
        """Install the handler, unless SIGINT is ignored, as in background jobs, or already handled."""
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            receiver, self._sender = socket.socketpair()
            self._sender.setblocking(False)
            signal.signal(signal.SIGINT, self._interrupt)
            signal.set_wakeup_fd(self._sender.fileno(), warn_on_full_buffer=False)
            threading.Thread(target=self._watch, args=[receiver], daemon=True).start()

    def end(self) -> None:
        """Remove the handler; a process that was interrupted still exits."""
        if not self.was_received and signal.getsignal(signal.SIGINT) == self._interrupt:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._sender.close()

    def report(self) -> None:
        """Write the message, once."""
        if self._is_reported.acquire(blocking=False):
            write_message("truewood: stopped")

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.was_received = True
        raise KeyboardInterrupt

    def _watch(self, receiver: socket.socket) -> None:
        with receiver:
            while mark := receiver.recv(1):
                if mark[0] == signal.SIGINT:
                    threading.Event().wait(_PATIENCE)
                    self.report()
                    try:
                        remove_unfinished()
                    finally:  # even if an open file cannot be removed
                        os._exit(130)
