"""The data files: every cell of every line is read by its class, and what no class can say."""

import csv
import hashlib
import re
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from gramwatt.sci.catalog import catalog
from gramwatt.sci.catalog.files import FILES as KINDS
from gramwatt.sci.figures.csv_data import LIST_SEPARATOR, columns, data_text, rows
from gramwatt.sci.suggest.evidence import EffectRow, SourceRow
from gramwatt.sci.suggest.measured import ResultRow
from gramwatt.sci.suggest.work import PowerRow
from tests.packages import ROOT

DATA = Path(catalog.__file__).parent / "data"
FILES = sorted(name for kind in KINDS for name in kind.files)
OF_SUGGEST = [EffectRow, PowerRow, ResultRow, SourceRow]


@cache
def lines(name):
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def lines_of_all(name):
    """The lines of a file and of those with its columns in folders apart."""
    [kind] = [kind for kind in KINDS if name in kind.files]
    return [line for file in kind.files for line in lines(file)]


def column(name, of):
    return {line[of] for line in lines_of_all(name)}


def test_every_data_file_has_a_class_and_every_class_its_files():
    assert {path.relative_to(DATA).as_posix() for path in DATA.rglob("*.csv")} == set(FILES)
    shipped = {path.name for path in (ROOT / "sci/suggest/data").glob("*.csv")}
    assert shipped == {name for kind in OF_SUGGEST for name in kind.files}


@pytest.mark.parametrize("kind", [*KINDS, *OF_SUGGEST])
def test_every_line_is_read_and_has_a_key_of_its_own(kind):
    """Reading checks type, bounds and choices of each cell; a wrong one raises."""
    keys = [tuple(getattr(row, part) for part in kind.key) for row in rows(kind)]
    assert len(keys) == len(set(keys)) > 0


@pytest.mark.parametrize("kind", KINDS)
def test_columns_are_those_of_the_class_in_its_order_and_explained(kind):
    for name in kind.files:
        assert data_text(name).splitlines()[0].split(",") == [row.name for row in columns(kind)]
        assert all(cell == cell.strip() for line in lines(name) for cell in line.values())
    assert all(row.text and row.cells for row in columns(kind))


def references():
    return [
        (name, row.name, row.ref)
        for kind in KINDS
        for name in kind.files
        for row in columns(kind)
        if row.ref
    ]


def test_every_reference_is_found():
    for name, of, ref in references():
        target = column(*ref.split(":"))
        for line in lines(name):
            items = {item for item in line[of].split(LIST_SEPARATOR) if item}
            assert items <= target, f"{name}: {line}"


def test_every_source_is_used():
    used = set()
    for name, of, ref in references():
        if ref == "sources.csv:key":
            used |= {key for line in lines(name) for key in line[of].split(LIST_SEPARATOR)}
    assert column("sources.csv", "key") - used == set()


def test_aliases_point_at_lines_of_their_file():
    files = {"hardware": "hardware.csv", "cpu": "cpus.csv", "instance": "instances.csv"}
    known = {what: column(file, "id") for what, file in files.items()}
    known["region"] = {f"{line['provider']}:{line['region']}" for line in lines("regions.csv")}
    wrong = [a for a in lines("aliases.csv") if a["id"] not in known[a["what"].split("-")[0]]]
    assert wrong == []


def test_no_name_stands_for_two_ids_unless_it_is_shared():
    single = [a["alias"].lower() for a in lines("aliases.csv") if a["what"] == "hardware"]
    assert len(single) == len(set(single))
    shared = {}
    for line in lines("aliases.csv"):
        if line["what"] == "hardware-shared":
            shared[line["alias"]] = shared.get(line["alias"], 0) + 1
    assert min(shared.values()) >= 2


def test_every_figure_of_a_part_names_its_source():
    figures = {
        "tdp_sources": ("tdp_w",),
        "idle_sources": ("idle_w",),
        "die_sources": ("die_area_mm2",),
        "memory_sources": ("memory_gb", "memory_bandwidth_gbs"),
        "peak_sources": ("fp32_tflops", "fp16_tensor_tflops", "bf16_tensor_tflops", "int8_tops"),
    }
    for line in lines_of_all("hardware.csv"):
        for keys, names in figures.items():
            if any(line[of] for of in names):
                assert line[keys], f"{line['id']}: {keys}"
                assert set(line[keys].split(";")) <= set(line["sources"].split(";")), line["id"]


def test_the_range_of_a_chosen_study_holds_every_study_of_that_part():
    studies = lines_of_all("embodied_studies.csv")
    chosen = {line["hardware"]: line for line in studies if line["role"] == "chosen"}
    assert len(chosen) == sum(line["role"] == "chosen" for line in studies) == 10
    for line in studies:
        if line["role"] in ("chosen", "range") and line["hardware"] in chosen:
            kilograms = float(line["kg_co2e"]) / float(line["devices"])
            ends = chosen[line["hardware"]]
            assert float(ends["low_kg"]) <= kilograms <= float(ends["high_kg"]), line["id"]
            assert ends["tier"] in ("A", "B")


def test_pue_is_the_last_of_its_history():
    for line in lines("regions.csv"):
        if line["pue"]:
            year, value = line["pue_history"].split(";")[-1].split("=")
            assert (year, float(value)) == (line["pue_year"], float(line["pue"])), line
            assert line["pue_basis"] in ("annual", "design")
            assert line["pue_source"]


def test_the_spread_of_pue_is_that_of_its_yearly_changes():
    """82 of 87 changes to the next value are at most 0.05: what regions.PUE_SPREAD stands on."""
    histories = [line["pue_history"].split(";") for line in lines("regions.csv")]
    values = [[float(item.split("=")[1]) for item in history if item] for history in histories]
    changes = [abs(b - a) for history in values for a, b in pairwise(history)]
    assert len(changes) == 87
    assert sum(change <= 0.05 + 1e-9 for change in changes) == 82


def test_counts_of_lines():
    expected = {"countries.csv": 250, "regions.csv": 404}
    assert {name: len(lines_of_all(name)) for name in expected} == expected
    assert len(column("odbl/zones.csv", "zone")) == 352
    assert len(lines_of_all("embodied_studies.csv")) == 47


def test_odbl_data_stand_apart_with_their_notice():
    notice = (DATA / "odbl" / "LICENSE.md").read_text(encoding="utf-8")
    assert "Open Database License" in notice
    assert "Electricity Maps" in notice
    odbl = {line["key"] for line in lines("sources.csv") if line["licence"] == "ODbL-1.0"}
    for name in FILES:
        if "source" in lines(name)[0] and not name.startswith("odbl/"):
            assert {line["source"] for line in lines(name)}.isdisjoint(odbl), name


def test_share_alike_data_stand_apart_with_their_notice():
    """The tables of CC BY-SA sources are in their folder, and NOTICE names the sources."""
    found = {line["key"] for line in lines("sources.csv") if "CC BY-SA" in line["licence"]}
    assert found == {"stas", "ademe2026"}
    assert {line["source"] for line in lines("embodied_studies.csv")}.isdisjoint(found)
    assert all(line["source"] == "ademe2026" for line in lines("cc-by-sa/embodied_studies.csv"))
    for name, apart in (("hardware.csv", False), ("cc-by-sa/hardware.csv", True)):
        for line in lines(name):
            assert bool(found & set(line["sources"].split(";"))) == apart, line["id"]
    texts = [DATA / "cc-by-sa" / "LICENSE.md", ROOT / "NOTICE"]
    for text in (path.read_text(encoding="utf-8") for path in texts):
        assert "ADEME" in text
        assert "stas00/ml-engineering" in text
        assert "CC BY-SA 4.0" in text or "ShareAlike 4.0" in text


def test_the_version_belongs_to_these_data():
    """Changed data need a new version, or two reports with one version would differ."""
    digest = hashlib.sha256()
    for name in FILES:
        if name != "version.csv":
            digest.update(name.encode() + (DATA / name).read_bytes().replace(b"\r\n", b"\n"))
    line = lines("version.csv")[0]
    assert re.fullmatch(r"20\d\d\.\d\d\.\d\d(\.\d+)?", line["version"])
    assert line["sha256"] == digest.hexdigest(), (
        f"the data changed: put today's date and {digest.hexdigest()} into "
        "sci/catalog/data/version.csv"
    )
