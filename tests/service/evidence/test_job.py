"""`gramwatt evidence` of a job, as its users run it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest

from gramwatt.sci.score.version import ENGINE_VERSION
from gramwatt.service import evidence
from gramwatt.service.evidence import EvidenceError, differences
from tests.journals import START
from tests.service.cli.command import gramwatt
from tests.service.evidence.conftest import import_hours
from tests.service.evidence.forge import changed, members, numbers, sealed, verify, with_json
from tests.service.keyed import add, store_of

JOURNALS, INPUTS, SCORES = "journals.ndjson", "inputs.ndjson", "scores.ndjson"
SCORE = f"{SCORES}: job-1"


def test_the_bundle_has_the_score_and_its_inputs(bundle):
    files = members(bundle)
    score = json.loads(files[SCORES])
    # 3 min x 600 W = 108 kJ = 0.03 kWh; x 100 g/kWh x PUE 1.2 = 3.6 g.
    assert score["energy_kwh"]["value"] == pytest.approx(0.03, rel=1e-12)
    assert score["operational_g"]["value"] == pytest.approx(3.6, rel=1e-12)
    journal = [json.loads(line) for line in files[JOURNALS].splitlines()]
    assert sum(row.get("energy_j", 0) for row in journal) == 108_000
    inputs = json.loads(files[INPUTS])
    assert [row["field"] for row in inputs["corrections"]] == ["pue"]
    [asked] = inputs["intensity"]
    assert [point["intensity"]["value"] for point in asked["points"]] == [100.0]
    assert json.loads(files["evidence.json"])["jobs"] == 1
    assert sorted(files) == ["evidence.json", INPUTS, JOURNALS, SCORES, "sha256sums"]


def test_another_machine_computes_it_again_without_store_and_network(bundle, tmp_path):
    (tmp_path / "job.zip").write_bytes(bundle)
    # No socket can be opened, and nothing may be written.
    (tmp_path / "sitecustomize.py").write_text(
        "import socket\nclass No(socket.socket):\n    def __init__(self, *a, **k):\n"
        "        raise OSError('no network')\nsocket.socket = No\n"
    )
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(tmp_path),
        "HOME": str(tmp_path / "h"),
    }
    line = [sys.executable, "-m", "gramwatt", "evidence", "verify", "job.zip"]
    done = subprocess.run(line, cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "every figure of the score, scored again" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job.zip", "sitecustomize.py"]


def test_the_same_revision_gives_the_same_bytes(bundle, world):
    assert gramwatt("evidence", "export", "job-1")[:2] == (0, "job-1.zip\n")
    assert (world / "job-1.zip").read_bytes() == bundle


@pytest.mark.parametrize(
    ("name", "old", "new", "figure"),
    [
        (JOURNALS, b'"energy_j":36000.0', b'"energy_j":35000.0', "energy_kwh.value"),
        (JOURNALS, b'"amount":10.0', b'"amount":20.0', "sci.0.count"),
        (INPUTS, b'"value":1.2', b'"value":1.1', "method.pue.value"),
        (INPUTS, b'"value":100.0', b'"value":99.0', "operational_g.value"),
    ],
)
def test_a_changed_input_names_the_figures_that_do_not_follow(bundle, name, old, new, figure):
    files = members(bundle)
    assert old in files[name]
    files[name] = files[name].replace(old, new)
    found = verify(sealed(files))
    assert [text for text in found.wrong if text.startswith(f"{SCORE}: {figure} is ")]


def test_any_figure_of_a_score_is_named_when_it_is_changed(bundle, monkeypatch):
    """Each number of the document, doubled, with fitting sums."""
    monkeypatch.setattr(evidence, "DIFFERENCES_MOST", 10_000)
    stated = numbers(json.loads(members(bundle)[SCORES]))
    assert len(stated) > 100
    found = verify(with_json(bundle, SCORES, changed(*stated)))
    assert found.wrong == [
        f"{SCORE}: {path} is {json.dumps(2 * was)}, computed again {json.dumps(was)}"
        for path, was in stated.items()
    ]


def test_a_foreign_file_is_named(bundle):
    files = members(bundle)
    found = verify(sealed({**files, "month.json": b"{}"}))
    assert found.wrong == ["month.json: is not a file of this bundle"]
    with pytest.raises(EvidenceError, match="has 'award.txt', which is not of an evidence bundle"):
        verify(sealed({**files, "award.txt": b"best of all"}))


@pytest.mark.parametrize("name", [JOURNALS, INPUTS])
def test_lines_of_no_score_are_named(bundle, name):
    files = members(bundle)
    for job_id in ("a", "z"):
        line = json.dumps({"job_id": job_id}).encode() + b"\n"
        content = line + files[name] if job_id == "a" else files[name] + line
        found = verify(sealed({**files, name: content})).wrong
        assert found == [f"{name}: has lines of {job_id}, which {SCORES} has not"]
    for line in (b"\n", b"{}\n", b'{"job_id":""}\n'):
        with pytest.raises(EvidenceError, match="names no job"):
            verify(sealed({**files, name: line + files[name]}))


def test_a_job_that_is_there_twice_or_not_named_is_refused(bundle):
    files = members(bundle)
    with pytest.raises(EvidenceError, match="is not of the next job"):
        verify(sealed({**files, SCORES: files[SCORES] * 2}))
    for name in (JOURNALS, INPUTS, SCORES):
        for line in (b"{}", b"", b'{"job_id":""}', b"[" * 5000):
            with pytest.raises(EvidenceError, match=f"{name}: was altered: .* names no job"):
                verify(sealed({**files, name: line + b"\n" + files[name]}))
    files[INPUTS] *= 2
    assert f"{INPUTS}: job-1 is there twice" in verify(sealed(files)).wrong


def test_an_overlay_is_used_and_one_that_is_changed_names_the_figures(world, tmp_path, monkeypatch):
    overlay = tmp_path / "catalog.toml"
    overlay.write_text('[zones.LAB]\ng_per_kwh = 40.0\nyear = 2026\nsource = "our own"\n')
    monkeypatch.setenv("GRAMWATT_OVERLAY", str(overlay))
    with store_of(world / "home") as service:
        start = START + timedelta(days=93)
        add(service, "own", zone="LAB", start=start)
    path = tmp_path / "own.zip"
    assert gramwatt("evidence", "export", "own", "-o", str(path))[0] == 0
    files = members(path.read_bytes())
    found = verify(path.read_bytes())
    assert found.wrong == []
    assert "the issuer's own entries in overlay.toml" in found.trusted[1]
    other = {**files, "overlay.toml": files["overlay.toml"].replace(b"40.0", b"30.0")}
    wrong = verify(sealed(other)).wrong
    assert any(text.startswith("scores.ndjson: own: operational_g.value is ") for text in wrong)


def test_figures_of_another_engine_are_told_as_such(bundle, tmp_path):
    def older(score: Any) -> None:
        score["method"]["engine_version"] = "0"
        score["total_g"]["high"] *= 2

    other = with_json(bundle, SCORES, older)
    said = f"engine_version is 0, and {ENGINE_VERSION} here"
    assert verify(other).versions == [said]
    (tmp_path / "job.zip").write_bytes(other)
    code, _, err = gramwatt("evidence", "verify", str(tmp_path / "job.zip"))
    assert code == 1
    end = f"{said}, so that figures may differ: verify with the release that made it\n"
    assert err.endswith(end)


def test_a_missing_journal_is_named(bundle):
    for name in (JOURNALS, INPUTS):
        files = members(bundle)
        del files[name]
        wrong = verify(sealed(files)).wrong
        assert any(text.startswith(f"{SCORE}: cannot be scored again: ") for text in wrong)


def test_inputs_that_are_none_are_one_line(bundle):
    for name, content in ((JOURNALS, b"{"), (INPUTS, b"{}"), (INPUTS, b"[" * 100_000)):
        try:
            wrong = verify(sealed({**members(bundle), name: content})).wrong
        except EvidenceError as error:
            wrong = [error.message]
        assert any("job-1" in text or "names no job" in text for text in wrong)


def test_an_altered_bundle_is_exit_1_with_the_part(bundle, tmp_path):
    wrong = tmp_path / "wrong.zip"
    wrong.write_bytes(with_json(bundle, SCORES, changed("energy_kwh.value")))
    code, _, err = gramwatt("evidence", "verify", str(wrong))
    assert code == 1
    assert f"gramwatt: {SCORE}: energy_kwh.value is 0.06, computed again 0.03\n" in err
    code, out, err = gramwatt("evidence", "verify", str(wrong), "--json")
    assert (code, json.loads(out)["outcome"]) == (1, "altered")
    code, out, _ = gramwatt("evidence", "verify", str(tmp_path / "none.zip"))
    assert (code, out) == (1, "")


def test_a_running_job_has_no_bundle(world):
    code, out, err = gramwatt("evidence", "export", "running", "-o", "running.zip")
    assert (code, out) == (1, "")
    assert err == "gramwatt: job 'running' still runs; export it when it has ended\n"
    assert not (world / "running.zip").exists()


def test_a_job_is_scored_again_when_its_inputs_are_others_now(world, tmp_path):
    """New intensity came after the revision: the bundle has a new one, and verifies."""
    later = START + timedelta(days=62)
    with store_of(world / "home") as service:
        add(service, "late-1", zone="DE", start=later)
    assert json.loads(gramwatt("job", "late-1", "--json")[1])["revision"] == 1
    import_hours("DE", 250, later)
    assert gramwatt("evidence", "export", "late-1", "-o", str(tmp_path / "3.zip"))[0] == 0
    content = (tmp_path / "3.zip").read_bytes()
    score = json.loads(members(content)[SCORES])
    assert score["revision"] == 2
    assert score["method"]["intensity_g_per_kwh"]["value"] == pytest.approx(250)
    assert verify(content).wrong == []


def test_a_bundle_takes_the_place_of_an_older_one_in_one_step(world, tmp_path, bundle):
    """Whoever has the older one open reads it to its end, and a full disk leaves it whole."""
    (tmp_path / "job.zip").write_bytes(b"of yesterday")
    (tmp_path / "open.zip").hardlink_to(tmp_path / "job.zip")
    assert gramwatt("evidence", "export", "job-1", "-o", str(tmp_path / "job.zip"))[0] == 0
    assert (tmp_path / "job.zip").read_bytes() == bundle
    assert (tmp_path / "open.zip").read_bytes() == b"of yesterday"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job.zip", "open.zip"]


def test_differences_are_found_wherever_they_are():
    one = {"a": [1, {"b": 2.0}], "c": None, "d": True}
    assert list(differences(one, {"a": [1.0, {"b": 2}], "c": None, "d": True})) == []
    other = {"a": [1, {"b": 3}, 4], "c": 0, "d": 1}
    assert [place for place, *_ in differences(one, other)] == ["a.1.b", "a.2", "c", "d"]
    assert list(differences({}, {"x": 1})) == [("x", None, 1)]
