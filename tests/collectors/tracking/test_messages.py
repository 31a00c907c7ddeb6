"""Messages on a terminal end their lines between words; elsewhere a message is one line."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

from gramwatt.collectors.tracking.messages import wrap

END = (
    "gramwatt: 11 mWh (6.3 to 18), SCI 8.1 mg CO2e/job (1.6 to 14), grade D; see "
    "`gramwatt job 20260501-083000-3fa9c21b04d7`"
)
FIRST, SECOND = END.split(" see ")


def test_a_line_ends_between_words_and_a_command_stays_whole() -> None:
    assert wrap(END, 80) == f"{FIRST} see\n  {SECOND}"
    assert wrap(END, 79) == f"{FIRST} see\n  {SECOND}"
    assert wrap(END, 20).endswith(f"\n  {SECOND}")
    for whole in (0, len(END), 200):
        assert wrap(END, whole) == END
    assert wrap("a `b c", 3) == "a\n  `b c"


def test_only_a_terminal_gets_a_message_in_lines() -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    code = "from gramwatt.collectors.tracking.messages import print_message as say;"
    line = [sys.executable, "-c", f"{code} say({END[10:]!r})"]
    subprocess.run(line, check=True, stderr=theirs)
    assert os.read(ours, 1000).decode() == f"{FIRST} see\r\n  {SECOND}\r\n"
    os.close(ours)
    os.close(theirs)
    piped = subprocess.run(line, check=True, capture_output=True, text=True)
    assert piped.stderr == f"{END}\n"
