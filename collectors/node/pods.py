"""Which devices the kubelet has given to which pod: its pod-resources socket, `v1`, `List`.

Needs grpcio (`gramwatt[kubernetes]`). The four messages that are read of the published api.proto
have strings and messages only, so they are decoded here, without generated code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from gramwatt.collectors.common.clock import NS_PER_S
from gramwatt.collectors.common.installation import install_command
from gramwatt.collectors.devices.port import Notify
from gramwatt.collectors.node.owners import Owner, PodNames

SOCKET = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
METHOD = "/v1.PodResourcesLister/List"
EVERY_NS = 5 * NS_PER_S
TIMEOUT_S = 4.0
KEPT_NS = 300 * NS_PER_S
"""How long the last list holds while the kubelet does not answer, as in its restart."""
ANSWER_MOST_B = 16 << 20


class Held(NamedTuple):
    """The devices of one pod, by the ids of their device plugin."""

    namespace: str
    pod: str
    device_ids: tuple[str, ...]


class Reservation(NamedTuple):
    """A device that a pod holds: a board's, a replica's of a time-shared board, or a slice's."""

    owner: Owner
    device_id: str

    @property
    def board_id(self) -> str:
        """The id without the number of a replica, as NVIDIA's device plugin writes it."""
        return self.device_id.partition("::")[0]


def fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield number and content of a message's strings and messages; raises ValueError for others'
    bytes. Numbers are passed over (protocol buffers, wire format).
    """
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            _, at = _varint(data, at)
            continue
        if kind == 2:
            length, at = _varint(data, at)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise ValueError(f"wire type {kind}")
        if at + length > len(data):
            raise ValueError("cut off")
        if kind == 2:
            yield key >> 3, data[at : at + length]
        at += length


def decode(data: bytes) -> list[Held]:
    """Return the pods with devices in a ListPodResourcesResponse; raises ValueError."""
    found = []
    for pod in _each(data, 1):
        ids = [
            text.decode()
            for container in _each(pod, 3)
            for devices in _each(container, 2)
            for text in _each(devices, 2)
        ]
        if ids:
            name, namespace = (next(_each(pod, number), b"").decode() for number in (1, 2))
            found.append(Held(namespace, name, tuple(dict.fromkeys(ids))))
    return found


def _each(data: bytes, number: int) -> Iterator[bytes]:
    return (content for found, content in fields(data) if found == number)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            return value, at
    raise ValueError("cut off")


def caller(path: Path) -> Callable[[], Any]:
    """Return what asks the socket and gives a future of the decoded list; raises ImportError."""
    import grpc

    options = [("grpc.max_receive_message_length", ANSWER_MOST_B)]
    channel = grpc.insecure_channel(f"unix:{path}", options=options)
    method = channel.unary_unary(METHOD, response_deserializer=decode)
    return lambda: method.future(b"", timeout=TIMEOUT_S)


class PodDevices:
    """The devices that pods hold now; asked again every 5 s, and never waited for."""

    def __init__(self, ask: Callable[[], Any], names: PodNames, notify: Notify) -> None:
        self._ask, self._names, self._notify = ask, names, notify
        self._call: Any = None
        self._due_ns = self._told_ns = 0
        self._held: list[Held] = []
        self._reported = False

    def settle(self, wait_s: float) -> None:
        """Wait for the first answer [s], so that what runs already is known at the start."""
        self._call = self._ask()
        try:
            self._call.result(wait_s)
        except Exception:  # poll reports it
            return

    def reservations(self, now_ns: int) -> list[Reservation]:
        """Return what pods hold by the last answer, and ask again when it is time."""
        if self._call is not None and self._call.done():
            self._take(now_ns)
        if self._call is None and now_ns >= self._due_ns:
            self._due_ns = now_ns + EVERY_NS
            self._call = self._ask()
        if now_ns - self._told_ns > KEPT_NS:
            self._held = []
        found = []
        for held in self._held:
            owner = self._names.by_name(held.namespace, held.pod)
            found += [Reservation(owner, one) for one in held.device_ids]
        return found

    def _take(self, now_ns: int) -> None:
        call, self._call = self._call, None
        try:
            self._held, self._told_ns = call.result(), now_ns
        except Exception as error:  # absent, refused, not the kubelet's, or too late
            if not self._reported:
                self._reported = True
                self._notify("pods-unknown", f"the kubelet's list of pods: {_why(error)}.")
            return
        self._names.refresh()


def _why(error: Any) -> str:
    code = getattr(error, "code", None)
    name = code().name.lower().replace("_", " ") if callable(code) else str(error)
    return f"{name or type(error).__name__}; devices go by the processes on them meanwhile"


def without_grpc() -> str:
    """Return the sentence for a socket that cannot be asked."""
    return f"the kubelet's socket is not asked without grpcio: `{install_command('kubernetes')}`"
