"""What `gramwatt verify` cannot prove and says so; packs of kept reports in succession."""

from __future__ import annotations

import hashlib
import json
import zipfile
from datetime import timedelta
from pathlib import Path

import pytest

from gramwatt.service.jobs.intake.ingest import ingest
from gramwatt.service.jobs.intake.local_spool import open_store
from gramwatt.service.months.report import keep_month
from gramwatt.service.packs.archive import PackError
from tests.journals import START, journal, lines
from tests.service.cli.command import gramwatt
from tests.service.packs.conftest import at_home, import_hours
from tests.service.packs.forge import light, members, sealed, verify


def test_what_must_be_believed_stands_at_the_end_in_an_auditors_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Germany at 16 g/kWh and a PUE of 1.01: all of it follows, and is named."""
    at_home(monkeypatch, tmp_path)
    service = open_store(tmp_path / "home")
    about = {"zone": "DE", "pue": 1.01, "minutes": 60}
    ingest(service, "job-1", lines(journal("job-1", **about)))
    service.store.close()
    import_hours("DE", 16)
    monkeypatch.setenv("GRAMWATT_ORGANISATION", "Example Lab")
    assert gramwatt("export", "pack", "job-1")[0] == 0
    code, out, err = gramwatt("verify", "job-1.zip")
    assert (code, err) == (0, "")
    [*_, last] = out.splitlines()
    assert last.startswith("To be believed: ")
    # 600 W for an hour.
    assert "The journals of 1 job (0.6 kWh) are taken as the meters wrote them" in last
    assert "1.01, which is far from the usual 1.1 to 2.19 of data centres, for 1 job" in last
    assert "16 g/kWh in the mean in DE" in last
    assert "which is far from the catalog's annual 342.1 g/kWh, for 1 job (0.6 kWh)" in last
    assert (
        "Nobody has signed this pack, so that anybody could have written that Example Lab" in last
    )
    document = json.loads(gramwatt("verify", "job-1.zip", "--json")[1])
    assert document["outcome"] == "proven"
    assert f"To be believed: {' '.join(document['believed'])}" == last


def test_a_kept_report_is_packed_by_its_number_and_names_the_pack_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_home(monkeypatch, tmp_path)
    service = open_store(tmp_path / "home")
    for number in range(3):
        start = START + timedelta(hours=number)
        ingest(service, f"job-{number}", lines(journal(f"job-{number}", start=start)))
    keep_month(service, "2026-05")
    assert gramwatt("export", "pack", "2026-05", "-o", "one.zip")[0] == 0
    # A correction, a job that comes late and a line of a job of then: revision 2.
    assert gramwatt("job", "job-0", "--set", "pue=1.5", "--reason", "the meter of the room")[0] == 0
    ingest(service, "late", lines(journal("late", start=START + timedelta(hours=5))))
    keep_month(service, "2026-05")
    assert gramwatt("export", "pack", "2026-05", "-o", "two.zip")[0] == 0
    code, out, _ = gramwatt("export", "pack", "2026-05", "--revision", "1")
    assert (code, out) == (0, "2026-05-r1.zip\n")
    # The first is the same to the byte, with its journals: the correction is not yet in it.
    again = members(Path("2026-05-r1.zip").read_bytes())
    assert again == members(Path("one.zip").read_bytes())
    assert Path("2026-05-r1.zip").read_bytes() == Path("one.zip").read_bytes()
    one, two = (members(Path(name).read_bytes()) for name in ("one.zip", "two.zip"))
    first, second = (json.loads(files["pack.json"]) for files in (one, two))
    assert [first["revision"], second["revision"]] == [1, 2]
    assert first["pack_before"] is None
    digest = hashlib.sha256(Path("one.zip").read_bytes()).hexdigest()
    assert second["pack_before"] == digest
    assert first["issued_at"] <= second["issued_at"]
    for name in ("one.zip", "two.zip"):
        code, out, err = gramwatt("verify", name)
        assert (code, err) == (0, ""), name
    assert f"it follows the pack with the SHA-256 {digest}" in out
    # A job is deleted: the report stays, and what can no longer be shown is said first.
    assert gramwatt("rm", "job-1", "--yes")[0] == 0
    assert gramwatt("export", "pack", "2026-05", "--revision", "1", "-o", "gone.zip")[0] == 0
    code, out, err = gramwatt("verify", "gone.zip")
    assert (code, err) == (3, "")
    assert out.splitlines()[1].startswith(
        "not compared month.json: 1 of its jobs was deleted since"
    )
    service.store.close()
    code, _, err = gramwatt("export", "pack", "2026-05", "--revision", "9")
    assert (code, err) == (1, "gramwatt: no report of 2026-05 was kept as revision 9\n")
    code, _, err = gramwatt("export", "pack", "job-0", "--revision", "1")
    assert (code, err.count("\n")) == (2, 1)


def test_a_pack_that_was_zipped_again_is_told_as_such(pack: bytes, tmp_path: Path) -> None:
    """By a program that sorts or stores otherwise, or after unpacking it into a folder."""
    files = members(pack)
    for number, (method, folder) in enumerate([(8, ""), (0, ""), (8, "job-1/")]):
        path = tmp_path / f"{number}.zip"
        with zipfile.ZipFile(path, "w", method) as archive:
            if folder:
                archive.writestr(folder, b"")
            for name in files if number else sorted(files):
                archive.writestr(folder + name, files[name])
        code, _, err = gramwatt("verify", str(path))
        assert code == 1
        assert "the archive's structure: was zipped again, or changed beside its files" in err


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("pack.json", {"without_journal": 5}, "pack.json: does not say what the pack holds: "),
        ("pack.json", {"issuer": None}, "pack.json: does not say what the pack holds: "),
        (
            "jobs/job-1/inputs.json",
            {"time_zone": "Mars/Base"},
            "jobs/job-1: cannot be computed again",
        ),
        ("jobs/job-1/inputs.json", {"intensity": [{}]}, "'start' is missing"),
        ("jobs/job-1/inputs.json", {"corrections": 7}, "a value has another form"),
        ("inputs/catalog.json", [], "inputs/catalog.json: is malformed"),
        ("jobs/job-1/score.json", [], "jobs/job-1/score.json: "),
    ],
)
def test_a_malformed_part_is_a_sentence(pack: bytes, name: str, content: object, said: str) -> None:
    files = members(light(pack))
    document = json.loads(files[name]) | content if isinstance(content, dict) else content
    files[name] = json.dumps(document).encode()
    try:
        wrong = verify(sealed(files)).wrong
    except PackError as error:
        wrong = [error.message]
    assert said in wrong[0]
    assert not any(word in text for word in ("Error(", "Traceback", "KeyError") for text in wrong)
