"""What every test starts from: its own home, no setting from outside, no scheduler around it."""

from __future__ import annotations

import gc
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
GROUPS = {
    "frameworks": "GRAMWATT_FRAMEWORKS",
    "release": "GRAMWATT_RELEASE",
    "clusters": "GRAMWATT_CLUSTERS",
}
collect_ignore = [folder for folder, asked in GROUPS.items() if asked not in os.environ]
"""Groups that take long, or much disk, run alone: scripts/check --frameworks,
--release, --clusters."""
PREFIXES = ("GRAMWATT_", "SLURM_", "TORCHELASTIC_", "OMPI_", "PMI_", "CODECARBON_", "KUBERNETES_")
RUNS = ("GITHUB_", "CI_", "GITLAB_")
"""What names the run of a CI, which a job would have as its own name."""
NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")

# Of hundreds of processes none compiles what another has compiled.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Whoever ignores it, as nohup does, hands that to every process that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples everywhere and every time; no deadline, because other work shares the cores.
settings.register_profile("gramwatt", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("gramwatt")


def pytest_collection_finish() -> None:
    """Leave what is loaded by now out of every garbage collection: it stays to the end."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def own_surroundings(tmp_path_factory, monkeypatch):
    """A home of the test's own, so that nothing touches the user's store, spool or settings."""
    for name in list(os.environ):
        if name.startswith(PREFIXES + RUNS) or name in NAMES:
            monkeypatch.delenv(name)
    monkeypatch.setenv("TERM", "xterm")  # a terminal of a test is one, whatever runs the tests
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    for name in ("DATA", "CONFIG", "CACHE", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(home / name.lower()))


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The home of gramwatt, which is not there yet, and the test's folder as the current one."""
    monkeypatch.setenv("GRAMWATT_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


@pytest.fixture(autouse=True)
def untouched_checkout():
    """Fail a test that leaves a file at the top of the checkout, where relative paths end."""
    before = set(os.listdir(ROOT))
    yield
    left = {name for name in set(os.listdir(ROOT)) - before if not name.startswith(".")}
    assert left <= {"__pycache__"}, f"files left in the checkout: {sorted(left)}"


@pytest.fixture(scope="session")
def root():
    """The checkout."""
    return ROOT
