"""Messages on a terminal end their lines between words; elsewhere a message is one line."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

import pytest

from gramwatt.collectors.track import messages

END = (
    "gramwatt: 0.57 Wh, 240 mg CO2e (150 to 410); 48 µg per image; mostly measured. More: "
    "`gramwatt job 20260501-083000-3fa9c21b04d7`"
)
FIRST, SECOND = END.split(" More: ")


def test_only_a_terminal_gets_a_message_in_lines():
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    code = "from gramwatt.collectors.track.messages import print_message as say;"
    line = [sys.executable, "-c", f"{code} say({END[10:]!r})"]
    subprocess.run(line, check=True, stderr=theirs)
    assert os.read(ours, 1000).decode() == f"{' ' * 80}\r{FIRST}\r\n  More: {SECOND}\r\n"
    os.close(ours)
    os.close(theirs)
    piped = subprocess.run(line, check=True, capture_output=True, text=True)
    assert piped.stderr == f"{END}\n"


PART = (
    "import sys; from gramwatt.collectors.track.messages import print_message as say; "
    "sys.stderr.write({!r}); sys.stderr.flush(); say('the end')"
)


def shown(raw: str, columns: int) -> list[str]:
    """The lines that a terminal shows: one that wraps when the character after the last comes."""
    lines, at = [""], 0
    for char in raw:
        if char == "\n":
            lines.append("")
        elif char == "\r":
            at = 0
        else:
            if at == columns:
                lines, at = [*lines, ""], 0
            lines[-1] = lines[-1][:at].ljust(at) + char + lines[-1][at + 1 :]
            at += 1
    return [line.rstrip() for line in lines]


def on_terminal(code: str, columns: int) -> str:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    subprocess.run([sys.executable, "-c", code], check=True, stderr=theirs)
    raw = os.read(ours, 10_000).decode()
    os.close(ours)
    os.close(theirs)
    return raw


@pytest.mark.parametrize("before", ["", "x", "33%|###", "x" * 79, "done\n"])
def test_a_message_begins_a_line_whatever_stands_before_it(before, tmp_path):
    code = PART.format(before)
    first = [before.strip()] if before else []
    assert shown(on_terminal(code, 80), 80) == [*first, "gramwatt: the end", ""]
    with (tmp_path / "log").open("wb") as log:
        subprocess.run([sys.executable, "-c", code], check=True, stderr=log)
    assert (tmp_path / "log").read_text().splitlines() == [*first, "gramwatt: the end"]


@pytest.mark.parametrize("error", [RuntimeError, OSError, ValueError, AttributeError])
def test_a_stream_that_fails_in_its_own_way_breaks_no_training(monkeypatch, error):
    class Stream:
        def write(self, _text: str) -> int:
            raise error("reentrant call")

    monkeypatch.setattr(sys, "stderr", Stream())
    messages.print_message(f"a message, {error}")
