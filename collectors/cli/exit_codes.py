"""Exit codes of `gramwatt run`: as POSIX shells give them (XCU 2.8.2), and 2 for wrong usage."""

from __future__ import annotations

from gramwatt.collectors.track.messages import print_message

FAILED, USAGE, NOT_EXECUTABLE, NOT_FOUND, SIGNAL_BASE = 1, 2, 126, 127, 128
"""A command that died of signal n ends with SIGNAL_BASE + n."""


class NotStarted(Exception):
    """The command has not been started; the text says why, `exit_code` is that of `run`."""

    def __init__(self, text: str, exit_code: int = FAILED) -> None:
        super().__init__(text)
        self.exit_code = exit_code


class UsageError(NotStarted):
    """An argument of `gramwatt run` is wrong."""

    def __init__(self, text: str) -> None:
        super().__init__(text, USAGE)


def not_started(name: str, error: OSError | ValueError) -> int:
    """Report a command that could not be started; return its exit code."""
    missing = isinstance(error, FileNotFoundError)
    why = "command not found" if missing else getattr(error, "strerror", None) or error
    print_message(f"cannot run {name!r}: {why}")
    return NOT_FOUND if missing else NOT_EXECUTABLE
