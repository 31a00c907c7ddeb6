"""What `from gramwatt import track` costs a training process, and what names we leave to users."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

COSTLY = {"dataclasses", "inspect", "asyncio", "tomllib", "typing", "http", "email", "logging"}
"""Standard library that costs 10 ms or more, or megabytes, and that the client does without."""

# -S keeps the packages of the environment, and what their start-up hooks import, out of the way.
PROBE = """
import sys
sys.path.insert(0, sys.argv[1])
before = set(sys.modules)
from gramwatt import track
import json
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def modules_loaded(root: Path) -> set[str]:
    line = [sys.executable, "-S", "-c", PROBE, str(root / "src")]
    done = subprocess.run(line, capture_output=True, text=True, check=True, timeout=30)
    return set(json.loads(done.stdout))


def test_track_loads_the_standard_library_and_the_client_only(root):
    loaded = modules_loaded(root)
    assert "gramwatt.collectors.track.track" in loaded
    outside = {name for name in loaded if name.split(".")[0] not in sys.stdlib_module_names}
    assert {name.split(".")[0] for name in outside} == {"gramwatt"}
    assert not {name for name in loaded if name.startswith("gramwatt.sci")}


def test_track_loads_nothing_costly(root):
    assert {name.split(".")[0] for name in modules_loaded(root)} & COSTLY == set()


def test_the_generic_names_stay_the_users(tmp_path):
    for name in ("sci", "service", "reports", "collectors"):
        line = [sys.executable, "-c", f"import {name}"]
        done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path, timeout=30)
        assert f"No module named '{name}'" in done.stderr


def test_a_users_own_reports_package_wins(tmp_path):
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "__init__.py").write_text("MINE = True\n", "utf-8")
    text = "import reports, gramwatt; assert reports.MINE; from gramwatt import track"
    subprocess.run([sys.executable, "-c", text], cwd=tmp_path, check=True, timeout=30)
