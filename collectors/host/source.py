"""The interface of what the energy of the host's processor or memory comes from.

A source is a RAPL counter (`rapl.py`), codecarbon (`codecarbon.py`) or the model (`model.py`).
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from gramwatt.collectors.common.clock import NS_PER_S

CPU, RAM = "cpu", "ram"
WAIT_NS = 60 * NS_PER_S
"""How long a counter may be silent before its component is estimated."""


class Span(NamedTuple):
    """Mean power [W] of a whole component over [start, end) of the timeline [ns].

    None for a span of which a source tells nothing: the model stands in.
    """

    start_ns: int
    end_ns: int
    power_w: float | None
    kind: str


class HostSource(Protocol):
    """What the energy of a component comes from."""

    @property
    def meter(self) -> str:
        """The name of what gives the energy now, as in device records."""

    @property
    def kind(self) -> str:
        """Return how that energy is known."""

    def due_ns(self) -> int | None:
        """Return when it must be read again [ns]; None where it need not be."""

    def read(self, since_ns: int, now_ns: int, until_ns: int) -> list[Span]:
        """Return what is known of the time from `since_ns` to `until_ns` [ns], in order.

        The rest may come with the next reading; what lies beyond `until_ns` is cut off.
        """

    def cut_ns(self, mark_ns: int, now_ns: int) -> int | None:
        """Return where a reading now may end an interval for a window's boundary `mark_ns` [ns].

        None where it cannot.
        """

    def state(self) -> dict[str, Any]:
        """Return what the next meter's source needs to continue, JSON-ready."""

    def resume(self, state: dict[str, Any]) -> None:
        """Continue from the `state` of another meter's source, whichever that was."""
