"""The socket between a client and its meter: lines out, replies in, nothing that blocks.

Standard library only. No method raises for a meter that is gone, for a descriptor that a
daemonising process has closed, or in a forked child.
"""

from __future__ import annotations

import os
import select
import socket
import time

from gramwatt.collectors.common.json_lines import decoded
from gramwatt.collectors.tracking.launch import spawn_meter
from gramwatt.collectors.tracking.messages import print_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_DONTWAIT = getattr(socket, "MSG_DONTWAIT", 0)  # Windows has none, and must be able to import this
_SEND_FLAGS = _DONTWAIT | getattr(socket, "MSG_NOSIGNAL", 0)


class Channel:
    """A socket to at most one meter at a time; `connected` says whether there is one."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._inode = 0
        self._rest = b""
        """What the socket had no room for of a line that was taken: it goes before the next."""
        self._received = b""
        self._replies: list[dict[str, Any]] = []

    @property
    def connected(self) -> bool:
        """Return whether a meter was launched and has not hung up, as far as is known."""
        return self._socket is not None

    def launch(self) -> bool:
        """Start a meter at the other end; False, and a message, when none could be started."""
        try:
            ours, theirs = socket.socketpair()
        except OSError:
            return False
        try:
            spawn_meter(theirs.fileno())
        except OSError as error:
            ours.close()
            print_message(f"the meter could not be started ({error}); this job is not measured")
            return False
        finally:
            theirs.close()
        self._socket = ours
        self._rest = self._received = b""
        self._inode = os.fstat(ours.fileno()).st_ino
        return True

    def send(self, line: bytes) -> bool:
        """Take a line to send; False when the meter is gone or has not read enough yet."""
        if not self._push():
            return False
        self._rest = line
        self._push()
        taken = self._rest != line
        if not taken:
            self._rest = b""
        return taken

    def replies(self) -> Iterator[dict[str, Any]]:
        """Yield what the meter has replied since the last call."""
        self._push()
        self._receive()
        while self._replies:
            yield self._replies.pop(0)

    def wait_for_reply(self, deadline: float) -> bool:
        """Wait until the meter replies; False past `deadline` [s] (monotonic) or without one."""
        left_s = deadline - time.monotonic()
        if left_s <= 0 or self._socket is None:
            return False
        self._wait(select.POLLIN, left_s)
        return True

    def wait_for_room(self, deadline: float) -> None:
        """Wait until the meter has read enough for another line, at most 0.1 s."""
        self._wait(select.POLLOUT, max(0.0, min(0.1, deadline - time.monotonic())))

    def close(self) -> None:
        """Hang up; a meter sees the end of its client."""
        if self._still_ours() and self._socket is not None:
            self._socket.close()
            self._socket = None

    def _push(self) -> bool:
        """Send what is left of the last line; False while there is some."""
        if self._socket is None or not self._still_ours():
            return False
        try:
            while self._rest:
                self._rest = self._rest[self._socket.send(self._rest, _SEND_FLAGS) :]
        except BlockingIOError:
            return False
        except OSError:
            self._receive()  # its last replies count
            self.close()
            return False
        return True

    def _still_ours(self) -> bool:
        # A process that daemonises closes every descriptor, and the number may be another file's.
        try:
            if self._socket is not None and os.fstat(self._socket.fileno()).st_ino == self._inode:
                return True
        except OSError:
            pass
        if self._socket is not None:
            self._socket.detach()
            self._socket = None
        return False

    def _wait(self, event: int, timeout_s: float) -> None:
        if self._socket is not None:
            waiter = select.poll()
            waiter.register(self._socket.fileno(), event | (select.POLLOUT if self._rest else 0))
            waiter.poll(timeout_s * 1000)
            self._push()

    def _receive(self) -> None:
        while self._socket is not None and self._still_ours():
            try:
                data = self._socket.recv(65536, _DONTWAIT)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self.close()
                return
            *lines, self._received = (self._received + data).split(b"\n")
            self._replies += [reply for line in lines if (reply := decoded(line))]
