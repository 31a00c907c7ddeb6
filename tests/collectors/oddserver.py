"""A server that is none: whatever is asked, it answers the same bytes, or nothing."""

from __future__ import annotations

import contextlib
import socket
import threading

AT_ONCE_B = 200
DRIP_S = 0.02


class OddServer:
    """Answers every connection with `answer`: nothing keeps it open, a long one comes in drips."""

    def __init__(self, answer: bytes) -> None:
        self.answer, self.connections = answer, 0
        self._stopped = threading.Event()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.settimeout(0.05)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._serve, daemon=True)]
        self._threads[0].start()

    def stop(self) -> None:
        """Close every connection."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while not self._stopped.is_set():
            try:
                connection, _ = self._socket.accept()
            except TimeoutError:
                continue
            self.connections += 1
            self._threads.append(threading.Thread(target=self._reply, args=(connection,)))
            self._threads[-1].start()

    def _reply(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.settimeout(20.0)
            connection.recv(65536)
            if not self.answer:
                self._stopped.wait(30.0)
            connection.sendall(self.answer[:AT_ONCE_B])
            for place in range(AT_ONCE_B, len(self.answer)):
                if self._stopped.wait(DRIP_S):
                    return
                connection.sendall(self.answer[place : place + 1])
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):  # else what was not read resets the connection
                pass
