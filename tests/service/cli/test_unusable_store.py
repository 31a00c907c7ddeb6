"""A home or store that cannot be used: one sentence, exit code 1, and no other store."""

from pathlib import Path

import pytest

from gramwatt.collectors.spool import spool
from gramwatt.sci.figures.errors import StoreError
from gramwatt.service import local_store
from tests.journals import journal, lines
from tests.service.cli.command import gramwatt

COMMANDS = (
    ("jobs",),
    ("job", "last"),
    ("report", "month", "2026-05"),
    ("admin", "key", "create", "ops", "--scope", "admin"),
    ("admin", "log"),
    ("budget", "list"),
    ("admin", "db", "upgrade"),
    ("admin", "db", "check"),
    ("admin", "db", "backup", "backup.db"),
    ("serve", "--port", "0"),
    ("serve", "--only-tasks"),
    ("admin", "tasks"),
)


@pytest.fixture
def environ(tmp_path, monkeypatch):
    """A file stands where the folder of the store would be; nobody, not even root, can use it."""
    (tmp_path / "blocked").touch()
    (tmp_path / "tmp").mkdir()
    for name, value in {"TMPDIR": tmp_path / "tmp", "HOME": tmp_path / "user"}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("variable", ["GRAMWATT_HOME", "GRAMWATT_DATABASE_URL"])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_store_that_cannot_be_opened_is_said_and_no_other_is_made(
    environ, monkeypatch, command, variable
):
    where = environ / "blocked" / "home"
    value = f"sqlite:///{where}/gramwatt.db" if "URL" in variable else str(where)
    monkeypatch.setenv("GRAMWATT_HOME", str(environ / "home"))
    monkeypatch.setenv(variable, value)
    code, out, err = gramwatt(*command)
    assert (code, out, len(err.splitlines())) == (1, "", 1), err
    assert str(where) in err
    assert "ot a directory" in err or "File exists" in err
    assert "cannot serve on" not in err
    assert not [path for path in environ.rglob("*.db") if path.is_file()]


def test_journals_of_the_temporary_home_go_into_no_store_there(environ, monkeypatch):
    home = environ / "blocked" / "home"
    monkeypatch.setenv("GRAMWATT_HOME", str(home))
    elsewhere = spool.usable_home(home)
    folder = Path(elsewhere) / "spool" / "job-1" / "n1"
    folder.mkdir(parents=True)
    (folder / "w1.jsonl").write_bytes(b"".join(line + b"\n" for line in lines(journal("job-1"))))
    with pytest.raises(StoreError, match="Not a directory"):
        local_store.ingest(home)
    assert folder.exists()
    assert not list(environ.rglob("gramwatt.db"))
