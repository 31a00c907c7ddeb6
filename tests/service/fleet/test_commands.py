"""Commands of archives: bad input gives an error that names the fix, and changes nothing."""

import pytest

from tests.service.cli.command import gramwatt
from tests.service.fleet.test_archive import MONTH, fill

BAD = {
    "archive 2026-13 --to {place}": (2, "'2026-13' is not a month"),
    "archive 2031-01 --to {place}": (1, "no job in 2031-01"),
    "archive 2026-05 --to http://a/b": (1, "write a folder or s3://BUCKET/PREFIX"),
    "archive 2026-05 --to s3://": (1, "write a folder or s3://BUCKET/PREFIX"),
    "archive 2026-05 --to s3://a/b": (1, "needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
    "archive 2026-05 --to {file}": (1, "cannot write to {file}"),
    "archive verify {none}": (1, "has no archive"),
    "archive list {none}": (1, "has no archive"),
    "archive restore {none}": (1, "has no archive"),
    "archive restore {place} --month 2026-04": (1, "2026-04 is not in {place}, which has 2026-05"),
    "archive restore {place} --job job-x": (1, "job job-x is not in {place}"),
    "fleet sum --from {none}": (1, "has no archive"),
    "fleet sum --from {place} --engine spark": (1, "write duckdb or sc://host:port"),
    "fleet restate --from {place}": (2, "name what is new"),
    "fleet restate --from {place} --pue 0.5": (2, "write [ZONE=]X, X >= 1"),
    "fleet restate --from {place} --pue PL=1.1": (1, "no energy was used in PL, but in DE, FR"),
    "fleet restate --from {place} --intensity 300": (2, "write ZONE=X"),
    "fleet restate --from {place} --hours {none}": (2, "needs columns zone, hour"),
}


@pytest.fixture
def paths(light, tmp_path, monkeypatch):
    """An archive of a month, a file that is none, and nothing."""
    monkeypatch.setenv("GRAMWATT_HOME", str(tmp_path))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    fill(light)
    found = {name: tmp_path / name for name in ("place", "file", "none")}
    found["file"].write_text("of somebody else")
    assert gramwatt("archive", MONTH, "--to", str(found["place"]))[0] == 0
    return found


def test_what_is_wrong_is_said_in_a_line_and_changes_nothing(paths, tmp_path):
    before = sorted(path for path in tmp_path.rglob("*") if path.suffix != ".db-wal")
    for line, (code, text) in BAD.items():
        words = [word.format(**paths) for word in line.split()]
        found, out, err = gramwatt(*words)
        assert (found, out) == (code, ""), line
        assert text.format(**paths) in err.replace("\n", " "), err
    assert gramwatt("archive", "verify", str(paths["place"]))[0] == 0
    assert sorted(path for path in tmp_path.rglob("*") if path.suffix != ".db-wal") == before


def test_sums_are_by_project_in_their_order(paths):
    code, out, _ = gramwatt("fleet", "sum", "--from", str(paths["place"]), "--month", MONTH)
    assert code == 0
    assert [line.split(":")[0].strip() for line in out.splitlines()[1:]] == [
        "blue-whale",
        "humpback",
    ]
