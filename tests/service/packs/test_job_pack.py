"""`gramwatt export pack` of a job and `gramwatt verify`, as their users run them."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from gramwatt.sci.score.method import ENGINE_VERSION
from gramwatt.service.jobs.intake.ingest import ingest
from gramwatt.service.jobs.intake.local_spool import open_store
from gramwatt.service.packs.archive import PackError
from gramwatt.service.packs.forms import contradictions
from gramwatt.service.packs.verify import differences
from tests.journals import START, journal, lines
from tests.service.cli.command import gramwatt
from tests.service.packs.conftest import import_hours
from tests.service.packs.forge import light, members, sealed, verify, with_json

SCORE, INPUTS = "jobs/job-1/score.json", "jobs/job-1/inputs.json"
JOURNAL = "jobs/job-1/journal.ndjson"


def test_the_pack_has_the_score_its_inputs_and_the_forms(pack: bytes) -> None:
    files = members(pack)
    score = json.loads(files[SCORE])
    # 3 min x 600 W = 108 kJ = 0.03 kWh; x 100 g/kWh x PUE 1.2 = 3.6 g.
    assert score["energy_kwh"]["value"] == pytest.approx(0.03, rel=1e-12)
    assert score["operational_g"]["value"] == pytest.approx(3.6, rel=1e-12)
    journal = [json.loads(line) for line in files[JOURNAL].splitlines()]
    assert sum(row.get("energy_j", 0) for row in journal) == 108_000
    inputs = json.loads(files[INPUTS])
    assert [row["field"] for row in inputs["corrections"]] == ["pue"]
    [asked] = inputs["intensity"]
    assert [point["intensity_g_per_kwh"]["value"] for point in asked["points"]] == [100.0]
    rows = json.loads(files["inputs/catalog.json"])
    assert "nvidia-h100-sxm5-80" in rows["hardware"]
    assert rows["zones"]["FR"]["licence"]
    tree = yaml.safe_load(files["forms/impact-framework.yml"])["tree"]["children"]
    (step,) = {
        child["defaults"]["facility/pue"]
        for node in tree.values()
        for child in node["children"].values()
    }
    assert step == 1.2
    table = list(csv.DictReader(io.StringIO(files["tables/figures.csv"].decode())))
    [operational] = [r for r in table if (r["level"], r["figure"]) == ("job", "operational")]
    assert float(operational["value"]) == score["operational_g"]["value"]
    assert files["report.pdf"].startswith(b"%PDF-")


def test_another_machine_computes_it_again_without_store_and_network(
    pack: bytes, tmp_path: Path
) -> None:
    (tmp_path / "pack.zip").write_bytes(pack)
    # No socket can be opened, and nothing may be written.
    (tmp_path / "sitecustomize.py").write_text(
        "import socket\ndef no(*a, **k): raise OSError('no network')\nsocket.socket = no\n"
    )
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(tmp_path),
        "HOME": str(tmp_path / "h"),
    }
    line = [sys.executable, "-m", "gramwatt", "verify", "pack.zip"]
    done = subprocess.run(line, cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "every figure of the score, computed again: " in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pack.zip", "sitecustomize.py"]


def test_the_same_revision_gives_the_same_bytes(pack: bytes, world: Path) -> None:
    assert gramwatt("export", "pack", "job-1")[:2] == (0, "job-1.zip\n")
    assert (world / "job-1.zip").read_bytes() == pack


def doubled(path: str) -> Callable[[Any], None]:
    """A change that doubles the number at a path of a document."""
    *above, last = path.split(".")

    def change(document: Any) -> None:
        for name in above:
            document = document[int(name) if isinstance(document, list) else name]
        document[last] *= 2

    return change


@pytest.mark.parametrize(
    "figure",
    ["energy_kwh.value", "operational_g.high", "sci.0.g_per_unit.low", "method.pue.value"],
)
def test_a_changed_figure_is_named(pack: bytes, figure: str) -> None:
    stated = json.loads(members(pack)[SCORE])
    found = verify(with_json(light(pack), SCORE, doubled(figure)))
    was = stated
    for name in figure.split("."):
        was = was[int(name) if isinstance(was, list) else name]
    assert f"{SCORE}: {figure} is {2 * was!r}, computed again {was!r}" in found.wrong


@pytest.mark.parametrize(
    ("name", "old", "new", "figure"),
    [
        (JOURNAL, b'"energy_j":36000.0', b'"energy_j":35000.0', "energy_kwh.value"),
        (JOURNAL, b'"amount":10.0', b'"amount":20.0', "sci.0.count"),
        (INPUTS, b'"value": 1.2', b'"value": 1.1', "method.pue.value"),
        (INPUTS, b'"value": 100.0', b'"value": 99.0', "operational_g.value"),
    ],
)
def test_a_changed_input_names_the_figures_that_do_not_follow(
    pack: bytes, name: str, old: bytes, new: bytes, figure: str
) -> None:
    files = members(light(pack))
    assert old in files[name]
    files[name] = files[name].replace(old, new)
    found = verify(sealed(files))
    assert [text for text in found.wrong if text.startswith(f"{SCORE}: {figure} is ")]


def test_a_changed_row_of_the_catalog_is_named(pack: bytes) -> None:
    change = doubled("hardware.nvidia-h100-sxm5-80.embodied_g.value")
    [wrong] = verify(with_json(light(pack), "inputs/catalog.json", change)).wrong
    assert wrong.startswith("inputs/catalog.json: hardware.nvidia-h100-sxm5-80.embodied_g.value is")


@pytest.mark.parametrize("name", ["forms/impact-framework.yml", "tables/figures.csv", "report.pdf"])
def test_a_changed_form_does_not_follow_from_the_score(pack: bytes, name: str) -> None:
    files = members(pack if name == "report.pdf" else light(pack))
    files[name] = files[name].replace(b"1", b"2", 1)
    assert verify(sealed(files)).wrong == [f"{name}: does not follow from the score"]


def test_a_foreign_file_is_named(pack: bytes) -> None:
    found = verify(sealed({**members(light(pack)), "forms/award.txt": b"best of all"}))
    assert found.wrong == ["forms/award.txt: is no file of such a pack"]


def test_a_pack_of_another_catalog_is_equal_where_its_rows_are(pack: bytes) -> None:
    files = members(light(pack))
    old = json.loads(files["pack.json"])["catalog_version"].encode()
    for name in (SCORE, "pack.json", "inputs/catalog.json"):
        files[name] = files[name].replace(old, b"1999.01.01")
    found = verify(sealed(files))
    assert [text for text in found.wrong if not text.startswith("forms/")] == []
    assert "the catalog is 1999.01.01 in the pack" in " ".join(found.held)


def test_figures_of_another_engine_are_told_as_such(pack: bytes, tmp_path: Path) -> None:
    def older(score: Any) -> None:
        score["method"]["engine_version"] = "0"
        score["total_g"]["high"] *= 2

    other = with_json(pack, SCORE, older)
    said = f"engine_version is 0, and {ENGINE_VERSION} here"
    assert f"1 score whose {said}: the figures were compared" in verify(other).held
    (tmp_path / "pack.zip").write_bytes(other)
    code, _, err = gramwatt("verify", str(tmp_path / "pack.zip"))
    assert code == 1
    end = f"{said}, so that figures may differ: verify with the release that made it\n"
    assert err.endswith(end)


def test_a_missing_journal_is_named(pack: bytes) -> None:
    files = members(light(pack))
    del files[JOURNAL]
    with pytest.raises(PackError, match=f"^{JOURNAL}: is missing$"):
        verify(sealed(files))


def test_inputs_that_are_none_are_one_line(pack: bytes) -> None:
    for name, content in ((JOURNAL, b"{"), (INPUTS, b"{}"), (INPUTS, b"[" * 100_000)):
        try:
            wrong = verify(sealed({**members(light(pack)), name: content})).wrong
        except PackError as error:
            wrong = [error.message]
        assert len(wrong) == 1
        assert "jobs/job-1" in wrong[0]


def test_an_altered_pack_is_exit_1_with_the_part(pack: bytes, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.zip"
    wrong.write_bytes(with_json(light(pack), SCORE, doubled("energy_kwh.value")))
    code, _, err = gramwatt("verify", str(wrong))
    assert code == 1
    assert f"gramwatt: {SCORE}: energy_kwh.value is 0.06, computed again 0.03\n" in err
    code, out, err = gramwatt("verify", str(wrong), "--json")
    assert (code, json.loads(out)["outcome"]) == (1, "altered")
    code, out, _ = gramwatt("verify", str(tmp_path / "none.zip"))
    assert (code, out) == (1, "")


@pytest.mark.parametrize(
    ("form", "figure"),
    [
        ("forms/impact-framework.yml", b"0.03"),
        ("tables/figures.csv", b"0.03"),
        ("forms/model-card.md", b"emissions: 4"),
    ],
)
def test_a_form_under_another_release_number_is_compared_as_data(
    pack: bytes, form: str, figure: bytes, tmp_path: Path
) -> None:
    """A forger replaces a form or the report and names another release, which wrote them so."""
    files = members(light(pack))
    about = json.loads(files["pack.json"]) | {"made_by": "gramwatt 0.0.9"}
    files |= {"pack.json": json.dumps(about).encode(), "report.pdf": b"%PDF- of somebody"}
    # The energy of the job, or with PUE, or its emissions.
    assert figure in files[form]
    other = files | {form: files[form].replace(figure, figure[:-1] + b"1")}
    (tmp_path / "other.zip").write_bytes(sealed(other))
    code, _, err = gramwatt("verify", str(tmp_path / "other.zip"))
    assert code == 1
    assert f"gramwatt: {form}: " in err
    # Another text at the same figures, and another report: not contradicted, and said first.
    files["forms/model-card.md"] += b"A better one.\n"
    (tmp_path / "part.zip").write_bytes(sealed(files))
    code, out, err = gramwatt("verify", str(tmp_path / "part.zip"))
    assert (code, err) == (3, "")
    assert out.startswith("proven in part: ")
    said = [line for line in out.splitlines() if line.startswith("not compared ")]
    assert [line.split()[2].rstrip(":") for line in said] == ["forms/model-card.md", "report.pdf"]
    assert out.splitlines()[1:3] == said
    assert "equal        2 forms, tables and reports follow from the score\n" in out


def test_a_running_job_has_no_pack(world: Path) -> None:
    code, out, err = gramwatt("export", "pack", "running", "-o", "running.zip")
    assert (code, out) == (1, "")
    assert err == "gramwatt: job 'running' still runs; it can be packed when it has ended\n"
    assert not (world / "running.zip").exists()


def test_a_job_is_scored_again_when_its_inputs_are_others_now(world: Path, tmp_path: Path) -> None:
    """New intensity came after the revision: the pack has a new one, and verifies."""
    later = START + timedelta(days=62)
    service = open_store(world / "home")
    ingest(service, "late-1", lines(journal("late-1", zone="DE", start=later)))
    service.store.close()
    assert json.loads(gramwatt("job", "late-1", "--json")[1])["revision"] == 1
    import_hours("DE", 250, later)
    assert gramwatt("export", "pack", "late-1", "-o", str(tmp_path / "3.zip"))[0] == 0
    content = (tmp_path / "3.zip").read_bytes()
    score = json.loads(members(content)["jobs/late-1/score.json"])
    assert score["revision"] == 2
    assert score["method"]["intensity_g_per_kwh"]["value"] == pytest.approx(250)
    assert verify(content).wrong == []


def test_a_model_card_is_read_to_the_end_of_its_block() -> None:
    card = b'---\nco2_eq_emissions:\n  emissions: 4.5\n  source: "job a---b"\n---\n'
    assert list(contradictions("model-card.md", card, card)) == []
    [(place, stated, found)] = contradictions("model-card.md", card.replace(b"4.5", b"4.6"), card)
    assert (place, stated, found) == ("co2_eq_emissions.emissions", 4.6, 4.5)


def test_a_pack_takes_the_place_of_an_older_one_in_one_step(
    world: Path, tmp_path: Path, pack: bytes
) -> None:
    """Whoever has the older one open reads it to its end, and a full disk leaves it whole."""
    (tmp_path / "job.zip").write_bytes(b"of yesterday")
    (tmp_path / "open.zip").hardlink_to(tmp_path / "job.zip")
    assert gramwatt("export", "pack", "job-1", "-o", str(tmp_path / "job.zip"))[0] == 0
    assert (tmp_path / "job.zip").read_bytes() == pack
    assert (tmp_path / "open.zip").read_bytes() == b"of yesterday"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job.zip", "open.zip"]


def test_differences_are_found_wherever_they_are() -> None:
    one = {"a": [1, {"b": 2.0}], "c": None, "d": True}
    assert list(differences(one, {"a": [1.0, {"b": 2}], "c": None, "d": True})) == []
    other = {"a": [1, {"b": 3}, 4], "c": 0, "d": 1}
    assert [place for place, *_ in differences(one, other)] == ["a.1.b", "a.2", "c", "d"]
    assert list(differences({}, {"x": 1})) == [("x", None, 1)]
