"""Progress is shown on a terminal's stderr and nowhere else; what is worked on passes unchanged."""

import io
import sys

import pytest

from gramwatt.collectors.settings.progress import bar, busy, each


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_what_is_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal)
    with bar("copying") as report:
        report(1, 2)
    with busy("summing"):
        pass
    assert list(each([3, 1, 2], "packing")) == [3, 1, 2]
    shown = terminal.getvalue()
    assert [what in shown for what in ("copying", "50%", "summing", "packing")] == [True] * 4
    assert capsys.readouterr().out == ""
