"""A home of one's own for the commands."""

import pytest


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty home folder, with the test's folder as the current one."""
    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("GRAMWATT_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("GRAMWATT_DATABASE_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"
