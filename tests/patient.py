"""For tests that must pass on a busy machine and at any time of day.

`PATIENT` is `gramwatt` with a minute for what it waits seconds for elsewhere.
"""

from __future__ import annotations

import sys
import time

_PATIENT = """
from gramwatt.__main__ import main
from gramwatt.collectors.cli import run
from gramwatt.collectors.track import client
run.BUDGET_LIMIT_S = run.BUDGET_STORE_LIMIT_S = run.SENT_TIMEOUT_S = 60.0
client.CLOSE_TIMEOUT_S = 60.0
client.Client.wait_ready.__defaults__ = (60.0,)
main()
"""
PATIENT = (sys.executable, "-c", _PATIENT)
"""The start of a command line."""
DAY_S, TEST_S = 86_400.0, 60.0


def within_one_day() -> None:
    """Return when the day, and so the month, in UTC is not over before the test is."""
    left_s = DAY_S - time.time() % DAY_S
    if left_s < TEST_S:
        time.sleep(left_s + 1.0)
