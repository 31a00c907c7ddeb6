"""A clock that moves only when a test moves it: an hour of measuring takes milliseconds."""

from __future__ import annotations

from gramwatt.collectors.settings.clock import NS_PER_S


class VirtualClock:
    """Boot, monotonic and wall time, set by the test."""

    def __init__(self, wall_s: float = 1_700_000_000.0, boot_s: float = 1_000.0) -> None:
        self._boot_ns = int(boot_s * NS_PER_S)
        self._wall_ns = int(wall_s * NS_PER_S)
        self._suspended_ns = 0

    def now_ns(self) -> int:
        """Time since boot, suspended time included [ns]."""
        return self._boot_ns

    def mono_ns(self) -> int:
        """CLOCK_MONOTONIC: boot time less suspended time [ns]."""
        return self._boot_ns - self._suspended_ns

    def wall_ns(self) -> int:
        """Unix time [ns]."""
        return self._wall_ns

    def sleep(self, duration_s: float) -> None:
        """Move on by `duration_s` [s]."""
        self.advance_ns(round(duration_s * NS_PER_S))

    def advance_ns(self, span_ns: int) -> None:
        """Move on by `span_ns` [ns]."""
        self._boot_ns += span_ns
        self._wall_ns += span_ns

    def suspend(self, duration_s: float) -> None:
        """The machine sleeps: monotonic time stands still."""
        self.sleep(duration_s)
        self._suspended_ns += round(duration_s * NS_PER_S)

    def jump_wall(self, duration_s: float) -> None:
        """The wall clock is set, as by an administrator."""
        self._wall_ns += round(duration_s * NS_PER_S)
