"""Jobs in the formats of other tools, run as their users run it."""

import csv
import io
import json
import resource
import stat
from contextlib import contextmanager

import pytest
import yaml

from gramwatt.service.jobs.ingest import ingest
from tests.journals import Writer, lines
from tests.service.cli.command import gramwatt
from tests.service.keyed import add, store_of


@pytest.fixture
def job(home):
    with store_of(home) as service:
        add(service)
    return json.loads(gramwatt("job", "job-1", "--json")[1])


def test_the_manifest_goes_to_stdout(job):
    code, out, err = gramwatt("report", "job", "job-1", "--format", "if", "-o", "-")
    assert (code, err) == (0, "")
    tree = yaml.safe_load(out)["tree"]["children"]
    energy = sum(
        row["energy"]
        for node in tree.values()
        for component in node["children"].values()
        for row in component["inputs"]
    )
    assert energy == pytest.approx(job["energy_kwh"]["value"], rel=1e-9)


def test_the_model_card_is_kept_and_its_block_put_in(job, tmp_path):
    (tmp_path / "README.md").write_text("---\nlicense: mit\n---\n# Model\n", "utf-8")
    assert gramwatt("report", "card", "job-1", "--into", "README.md")[0] == 0
    text = (tmp_path / "README.md").read_text("utf-8")
    front = yaml.safe_load(text.split("---\n")[1])
    assert front["license"] == "mit"
    emissions = front["co2_eq_emissions"]["emissions"]
    assert emissions == pytest.approx(job["total_g"]["value"], rel=1e-5)
    assert text.endswith("---\n# Model\n")


def test_the_csv_holds_the_total(job):
    found = csv.DictReader(
        io.StringIO(gramwatt("report", "job", "job-1", "--format", "csv", "-o", "-")[1])
    )
    (total,) = [r for r in found if r["level"] == "job" and r["figure"] == "total"]
    assert float(total["value"]) == job["total_g"]["value"]


TO_OUT = [("report", "job", "job-2", "--format", "csv,if", "-o", "out")]
TO_OUT += [("report", "card", "job-2", "--into", "out")]


@pytest.mark.parametrize("arguments", TO_OUT)
def test_an_unknown_job_is_exit_1_and_writes_nothing(job, tmp_path, arguments):
    code, out, err = gramwatt(*arguments)
    assert (code, out) == (1, "")
    assert "unknown job 'job-2'; close ids: job-1" in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("place", ["none/card.md", "."])
def test_a_card_that_cannot_be_written_is_said_in_one_line(job, tmp_path, place):
    code, out, err = gramwatt("report", "card", "job-1", "--into", place)
    why = "No such file or directory" if "none" in place else "Is a directory"
    assert (code, out, err.count("\n"), f"{place}: {why}" in err) == (1, "", 1, True)


def test_a_card_that_is_no_text_is_kept(job, tmp_path):
    (tmp_path / "card.md").write_bytes(b"\xff\xfe")
    code, out, err = gramwatt("report", "card", "job-1", "--into", "card.md")
    assert (code, out, err) == (1, "", "gramwatt: cannot read card.md: it is not UTF-8 text\n")
    assert (tmp_path / "card.md").read_bytes() == b"\xff\xfe"


def test_a_card_is_printed_where_no_file_is_named(job):
    code, out, err = gramwatt("report", "card", "job-1")
    assert (code, err) == (0, "")
    emissions = yaml.safe_load(out.strip("-\n"))["co2_eq_emissions"]["emissions"]
    assert emissions == pytest.approx(job["total_g"]["value"], rel=1e-5)


def test_the_formats_of_others_are_files_beside_the_report(job, tmp_path):
    done = gramwatt("report", "job", "job-1", "--format", "json,csv,if", "-o", "out")
    assert done == (0, "out/job-1.json\nout/job-1.csv\nout/job-1.if.yaml\n", "")
    assert (tmp_path / "out/job-1.if.yaml").read_text().startswith("name: ")


@contextmanager
def largest_file(size_b):
    """A system on which no file can become larger, like a full disk; writing fails part way."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_b, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_card_that_cannot_be_written_whole_stays_as_it_was(job, tmp_path):
    before = "---\nlicense: mit\n---\n" + "# Model\n" * 40_000
    (tmp_path / "README.md").write_text(before, "utf-8")
    with largest_file(100_000):
        code, out, err = gramwatt("report", "card", "job-1", "--into", "README.md")
    assert (code, out) == (1, "")
    assert err.startswith("gramwatt: cannot write README.md: ")
    assert (tmp_path / "README.md").read_text("utf-8") == before
    assert not list(tmp_path.glob(".gramwatt-*"))


def test_a_report_that_cannot_be_written_whole_is_not_there(job, tmp_path):
    assert gramwatt("report", "job", "job-1", "-o", "out")[0] == 0
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "out").iterdir()}
    (tmp_path / "out/job-1.html").write_text("of yesterday")
    (tmp_path / "out/job-1.pdf").unlink()
    with largest_file(min(sizes.values()) - 1):
        for form in ("html", "pdf"):
            code, out, err = gramwatt("report", "job", "job-1", "--format", form, "-o", "out")
            assert (code, out, err.count("\n")) == (1, "", 1)
            assert err.startswith(f"gramwatt: cannot write out/job-1.{form}: ")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["job-1.html"]
    assert (tmp_path / "out/job-1.html").read_text() == "of yesterday"


def test_a_file_in_the_place_of_another_keeps_its_mode_and_a_link_stays_one(job, tmp_path):
    (tmp_path / "card.md").write_text("---\nlicense: mit\n---\n")
    (tmp_path / "card.md").chmod(0o640)
    (tmp_path / "README.md").symlink_to("card.md")
    assert gramwatt("report", "card", "job-1", "--into", "README.md")[0] == 0
    assert (tmp_path / "README.md").is_symlink()
    assert "co2_eq_emissions" in (tmp_path / "card.md").read_text("utf-8")
    assert stat.S_IMODE((tmp_path / "card.md").stat().st_mode) == 0o640


def test_what_is_no_file_is_written_to(job):
    assert gramwatt("report", "card", "job-1", "--into", "/dev/null") == (0, "/dev/null\n", "")
    code, out, err = gramwatt("report", "card", "job-1", "--into", "/dev/full")
    assert (code, out) == (1, "")
    assert err == "gramwatt: cannot write /dev/full: No space left on device\n"


def test_a_unit_that_is_a_word_of_the_glossary_is_the_users_in_a_report(home, tmp_path):
    with store_of(home) as service:
        meter = Writer("w1", "n1", "job-1")
        about = {"project": "p", "units": ("measured PUE",), "zone": "FR", "role": "command"}
        records = [meter.job(**about), meter.count(7, "measured PUE"), meter.end(60, "completed")]
        ingest(service, "job-1", lines(records))
    assert gramwatt("report", "job", "job-1", "--format", "html")[0] == 0
    page = (tmp_path / "job-1.html").read_text("utf-8")
    label = next(line for line in page.splitlines() if " per measured PUE" in line)
    assert label == "<dt>Carbon per measured PUE</dt>"
    assert '(<a class="term" href="#word-pue">PUE</a>)' in page  # ours is still explained
