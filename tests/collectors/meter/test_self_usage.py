"""The meter's account of itself: its own and its children's time and memory."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import subprocess, sys
from gramwatt.collectors.meter.job_meter import own_usage
before = own_usage()
hog = "data = bytearray(60_000_000)\\nend = sum(range(3_000_000))"
subprocess.run([sys.executable, "-c", hog], check=True)
after = own_usage()
print(after[0] - before[0], after[1] - before[1])
"""


def test_a_meter_does_not_load_openssl():
    """They are 5 MB of 33; `tempfile` comes with pynvml, where there is a driver."""
    code = "import sys\nimport gramwatt.collectors.meter.main\n"
    code += "from gramwatt.collectors.settings.identity import machine_id, node_id\n"
    code += "from gramwatt.collectors.host.machine import this_machine\n"
    code += "from gramwatt.collectors.host.model import power_of\n"
    code += "power_of(this_machine()), machine_id(), node_id()\n"
    code += "heavy = 'hashlib _hashlib ssl _ssl secrets requests tomllib tempfile'.split()\n"
    code += "print(set(heavy) & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_children_count_in_time_and_in_memory():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    spent_s, grown_b = map(float, done.stdout.split())
    assert spent_s >= 0.02
    assert 60e6 < grown_b < 120e6
