"""The data files against schema.toml: every cell of every line."""

from __future__ import annotations

import csv
import hashlib
import re
import tomllib
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gramwatt.sci.catalog import catalog
from tests.packages import ROOT

DATA = Path(catalog.__file__).parent / "data"
SCHEMA = tomllib.loads((DATA / "schema.toml").read_text(encoding="utf-8"))
FILES = sorted(SCHEMA)
for spec in SCHEMA.values():  # a file in a folder apart has the columns of another
    spec |= {of: SCHEMA[spec["like"]][of] for of in ("key", "columns") if "like" in spec}


@cache
def lines(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def lines_of_all(name: str) -> list[dict[str, str]]:
    """The lines of a file and of those with its columns in folders apart."""
    alike = [file for file in FILES if SCHEMA[file].get("like") == name]
    return [line for file in (*alike, name) for line in lines(file)]


def column(name: str, of: str) -> set[str]:
    return {line[of] for line in lines_of_all(name)}


def cells() -> list[tuple[str, str, dict[str, Any]]]:
    return [(name, of, rule) for name in FILES for of, rule in SCHEMA[name]["columns"].items()]


def numbers(cell: str, kind: str) -> list[str]:
    if kind == "pairs":
        return [item.split("=")[1] for item in cell.split(";")]
    return [cell] if kind in ("number", "integer") else []


def test_every_data_file_has_a_schema_and_every_schema_a_file() -> None:
    found = {str(path.relative_to(DATA)) for path in DATA.rglob("*.csv")}
    assert found == set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_columns_are_those_of_the_schema_in_its_order(name: str) -> None:
    assert list(lines(name)[0]) == list(SCHEMA[name]["columns"])
    assert all(None not in line and None not in line.values() for line in lines(name))


@pytest.mark.parametrize("name", FILES)
def test_keys_are_unique(name: str) -> None:
    keys = [tuple(line[part] for part in SCHEMA[name]["key"]) for line in lines(name)]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize(("name", "of", "rule"), cells(), ids=lambda part: str(part)[:30])
def test_cells_have_their_type_range_and_choices(name: str, of: str, rule: dict[str, Any]) -> None:
    for line in lines(name):
        cell = line[of]
        where = f"{name}: {of} of {line}"
        assert cell == cell.strip(), where
        if not cell:
            assert not rule.get("required"), where
            continue
        for number in numbers(cell, rule["type"]):
            assert rule.get("min", float("-inf")) <= float(number), where
            assert float(number) <= rule.get("max", float("inf")), where
        if rule["type"] == "integer":
            assert re.fullmatch(r"\d+", cell), where
        if rule["type"] == "id":
            assert re.fullmatch(r"[a-z0-9][a-z0-9._-]*", cell), where
        items = cell.split(";") if rule["type"] == "list" else [cell]
        assert "values" not in rule or set(items) <= set(rule["values"]), where


def test_every_reference_is_found() -> None:
    for name, of, rule in cells():
        if "ref" in rule:
            target = column(*rule["ref"].split(":"))
            for line in lines(name):
                items = line[of].split(";") if rule["type"] == "list" else [line[of]]
                assert {item for item in items if item} <= target, f"{name}: {line}"


def test_every_source_is_used() -> None:
    used: set[str] = set()
    for name, of, rule in cells():
        if rule.get("ref") == "sources.csv:key":
            used |= {key for line in lines(name) for key in line[of].split(";")}
    assert column("sources.csv", "key") - used == set()


def test_aliases_point_at_lines_of_their_file() -> None:
    files = {"hardware": "hardware.csv", "cpu": "cpus.csv", "instance": "instances.csv"}
    known = {what: column(file, "id") for what, file in files.items()}
    wrong = [a for a in lines("aliases.csv") if a["id"] not in known[a["what"].split("-")[0]]]
    assert wrong == []


def test_no_name_stands_for_two_ids_unless_it_is_shared() -> None:
    single = [a["alias"].lower() for a in lines("aliases.csv") if a["what"] == "hardware"]
    assert len(single) == len(set(single))
    shared: dict[str, int] = {}
    for line in lines("aliases.csv"):
        if line["what"] == "hardware-shared":
            shared[line["alias"]] = shared.get(line["alias"], 0) + 1
    assert min(shared.values()) >= 2


def test_every_figure_of_a_part_names_its_source() -> None:
    figures = {
        "tdp_sources": ("tdp_w",),
        "idle_sources": ("idle_w",),
        "die_sources": ("die_area_mm2",),
        "memory_sources": ("memory_gb", "memory_bandwidth_gbs"),
        "peak_sources": ("fp32_tflops", "fp16_tensor_tflops", "bf16_tensor_tflops", "int8_tops"),
    }
    for line in lines_of_all("hardware.csv"):
        for keys, columns in figures.items():
            if any(line[of] for of in columns):
                assert line[keys], f"{line['id']}: {keys}"
                assert set(line[keys].split(";")) <= set(line["sources"].split(";")), line["id"]


@pytest.mark.parametrize(
    ("name", "low", "value", "high"),
    [
        ("hardware.csv", "idle_low_w", "idle_w", "idle_high_w"),
        ("embodied_model.csv", "low", "value", "high"),
    ],
)
def test_ranges_hold_their_value(name: str, low: str, value: str, high: str) -> None:
    for line in lines_of_all(name):
        if line[low]:
            assert float(line[low]) <= float(line[value]) <= float(line[high]), line


def test_the_range_of_a_chosen_study_holds_every_study_of_that_part() -> None:
    studies = lines_of_all("embodied_studies.csv")
    chosen = {line["hardware"]: line for line in studies if line["role"] == "chosen"}
    assert len(chosen) == sum(line["role"] == "chosen" for line in studies) == 10
    for line in studies:
        if line["role"] in ("chosen", "range") and line["hardware"] in chosen:
            kilograms = float(line["kg_co2e"]) / float(line["devices"])
            ends = chosen[line["hardware"]]
            assert float(ends["low_kg"]) <= kilograms <= float(ends["high_kg"]), line["id"]
            assert ends["tier"] in ("A", "B")


def test_pue_is_the_last_of_its_history() -> None:
    for line in lines("regions.csv"):
        if line["pue"]:
            year, value = line["pue_history"].split(";")[-1].split("=")
            assert (year, float(value)) == (line["pue_year"], float(line["pue"])), line
            assert line["pue_basis"] in ("annual", "design")
            assert line["pue_source"]


def test_the_spread_of_pue_is_that_of_its_yearly_changes() -> None:
    """82 of 87 changes to the next value are at most 0.05: what regions.PUE_SPREAD stands on."""
    histories = [line["pue_history"].split(";") for line in lines("regions.csv")]
    values = [[float(item.split("=")[1]) for item in history if item] for history in histories]
    changes = [abs(b - a) for history in values for a, b in pairwise(history)]
    assert len(changes) == 87
    assert sum(change <= 0.05 + 1e-9 for change in changes) == 82


def test_counts_of_lines() -> None:
    expected = {
        "hardware.csv": 99,
        "instances.csv": 195,
        "cpus.csv": 26,
        "countries.csv": 92,
        "regions.csv": 165,
    }
    assert {name: len(lines_of_all(name)) for name in expected} == expected
    assert len(column("odbl/zones.csv", "zone")) == 86
    assert len(lines_of_all("embodied_studies.csv")) == 47


def test_odbl_data_stand_apart_with_their_notice() -> None:
    notice = (DATA / "odbl" / "LICENSE.md").read_text(encoding="utf-8")
    assert "Open Database License" in notice
    assert "Electricity Maps" in notice
    odbl = {line["key"] for line in lines("sources.csv") if line["licence"] == "ODbL-1.0"}
    for name in FILES:
        if "source" in SCHEMA[name]["columns"] and not name.startswith("odbl/"):
            assert {line["source"] for line in lines(name)}.isdisjoint(odbl), name


def test_share_alike_data_stand_apart_with_their_notice() -> None:
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


def test_every_source_has_a_licence_or_says_that_none_is_stated() -> None:
    assert all(line["licence"] for line in lines("sources.csv"))


def test_the_version_belongs_to_these_data() -> None:
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
