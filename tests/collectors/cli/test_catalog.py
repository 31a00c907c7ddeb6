"""`gramwatt catalog`: exit codes, documents and what goes to which stream."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from gramwatt.collectors.cli.app import build_app
from gramwatt.sci.catalog.catalog import Catalog, load_catalog


def run(*args: str) -> Result:
    return CliRunner().invoke(build_app(lambda: None, ["catalog"]), ["catalog", *args])


def document(*args: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*args, "--json").stdout)
    return found


def test_one_match():
    result = run("hardware", "Tesla T4", "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)["matches"]
    assert [part["id"] for part in found] == ["nvidia-t4"]
    assert found[0]["tdp_w"] == 70


def test_an_ambiguous_name_lists_all_its_choices_and_is_no_failure():
    result = run("hardware", "H100", "--json")
    assert result.exit_code == 0
    assert [part["id"] for part in json.loads(result.stdout)["matches"]] == [
        "nvidia-h100-sxm5-80",
        "nvidia-h100-pcie-80",
        "nvidia-h100-nvl-94",
    ]
    assert "nvidia-h100-sxm5-80, the commonest, is counted" in run("hardware", "H100").stderr


def test_an_unknown_name_says_what_a_job_on_it_counts():
    result = run("hardware", "NVIDIA H300")
    assert result.exit_code == 1
    assert "A job on it counts 193 kgCO2e (106 to 419) a device" in result.stderr
    instead = json.loads(run("hardware", "NVIDIA H300", "--json").stdout)["instead"]
    assert "nvidia-h200-sxm" in instead["hardware"]
    assert instead["embodied_g"]["low"] > 50_000
    assert "instead" not in json.loads(run("hardware", "AMD EPYC 9654", "--json").stdout)


@pytest.mark.parametrize(
    ("kind", "name", "close"),
    [
        ("hardware", "RTX 4900", "nvidia-rtx-4090"),
        ("cpus", "EPYC 7764", "amd-epyc-7763"),
        ("regions", "aws:eu-west-11", "aws:eu-west-1"),
        ("zones", "Germny", "DE"),
    ],
)
def test_no_match_exits_1_with_close_ones(kind, name, close):
    result = run(kind, name, "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["matches"] == []
    assert close in found["close"]


def test_no_match_for_people_goes_to_stderr():
    result = run("hardware", "RTX 4900")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "nvidia-rtx-4090" in result.stderr
    assert "gramwatt catalog hardware" in result.stderr


@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        ("hardware", Catalog.all_hardware),
        ("cpus", Catalog.all_cpus),
        ("instances", Catalog.all_instances),
        ("regions", Catalog.all_regions),
        ("zones", Catalog.all_zones),
    ],
)
def test_lists_are_whole(kind, rows):
    """Zones are followed by the world."""
    count = len(rows(load_catalog())) + (kind == "zones")
    assert len(document(kind)["matches"]) == count
    assert len(run(kind, "--all").stdout.splitlines()) == count + 1


@pytest.mark.parametrize(
    ("kind", "group"),
    [
        ("hardware", "AMD"),
        ("cpus", "intel"),
        ("instances", "aws"),
        ("regions", "gcp"),
        ("zones", "US-"),
    ],
)
def test_a_list_without_a_name_is_its_groups(kind, group):
    """Their counts are those of all rows, and a group is a name."""
    lines = run(kind).stdout.splitlines()
    total, groups, *counts = map(int, re.findall(r" (\d+)(?=[, ]|$)", " ".join(lines[:-3])))
    assert total == sum(counts) == len(document(kind)["matches"])
    assert groups == len(counts)
    assert max(map(len, lines)) <= 80
    rows = document(kind, group)["matches"]
    assert f" {group.lower() if group != 'US-' else group} {len(rows)}" in " ".join(lines)


def test_a_pipe_gets_tab_separated_lines():
    header, first, *_ = run("hardware", "--all").stdout.splitlines()
    assert header.split("\t")[:3] == ["id", "memory GB", "TDP W"]
    assert first.split("\t") == ["nvidia-k80", "12", "150", "-", "51.6 (30.4 to 87.7)", "C"]


def test_a_region_tells_its_intensity_and_source():
    region = document("regions", "gcp:europe-west1")["matches"][0]
    assert (region["zone"], region["intensity_g_per_kwh"]["value"]) == ("BE", 180.0)
    source = region["intensity_g_per_kwh"]["source"]
    assert "Electricity Maps BE 2025" in source
    assert "Ember has 117.58 of 2024" in source


def test_the_world_can_be_looked_up():
    assert document("zones", "world")["matches"][0]["intensity_g_per_kwh"]["value"] == 472.94


def test_one_row_for_people_prints_sources_and_says_what_is_not_known():
    printed = dict(line.split("\t", 1) for line in run("zones", "GB").stdout.strip().splitlines())
    # A day of Great Britain: 0.520 to 1.488 of 176, by odbl/intensity_spread.csv; Ember's value of
    # 2024 is 1.23 times that of this series, and the root of both squares is 1.57.
    assert printed["intensity_g_per_kwh"] == "176 (91.5 to 276) gCO2e/kWh"
    assert printed["intensity_g_per_kwh.source"].startswith("Electricity Maps GB 2025")
    assert "fp8_tflops\tnot known" in run("hardware", "T4").stdout
    assert "embodied_g\t62.9 (37 to 107) kgCO2e" in run("hardware", "T4").stdout


def test_an_unknown_kind_is_wrong_usage():
    assert run("toasters").exit_code == 2


def test_a_family_of_instances_is_answered_with_its_members():
    found = document("instances", "NCasT4_v3")["matches"]
    assert [row["id"] for row in found] == [
        f"azure:Standard_NC{size}as_T4_v3" for size in (4, 8, 16, 64)
    ]
    assert {row["hardware"] for row in found} == {"nvidia-t4"}
    line = run("instances", "N1").stdout.splitlines()[1]
    assert line.split("\t") == [
        "gcp:n1+k80",
        "nvidia-k80",
        "1 to 8",
        "1",
        "-",
        "-",
        "0.45 (2026-06-23)",
    ]


@pytest.mark.parametrize(
    ("kind", "name", "first", "reason"),
    [
        ("hardware", "Colab T4", "nvidia-t4", "cloud instance"),
        ("hardware", "ml.p4d.24xlarge", "nvidia-a100-sxm4-40", "cloud instance"),
        ("hardware", "A2", "nvidia-a100-sxm4-40", "family of cloud instances"),
        ("hardware", "Azure ML", "nvidia-m60", "virtual machines"),
        ("hardware", "MLX", "apple-m1", "Apple silicon"),
        ("instances", "Databricks", "azure:Standard_NV6", "cluster"),
        ("instances", "Tesla T4", "aws:g4dn.xlarge", "is hardware"),
    ],
)
def test_a_name_of_another_kind_is_answered_with_what_it_runs_on(kind, name, first, reason):
    result = run(kind, name, "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert found["matches"][0]["id"] == first
    assert reason in found["reason"]
    assert reason in run(kind, name).stderr


def test_a_name_that_is_no_hardware_is_refused_with_the_reason():
    result = run("hardware", "DeepRacer", "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert (found["matches"], found["close"]) == ([], [])
    assert "model car" in found["reason"]
    assert "model car" in run("instances", "DeepRacer").stderr


def test_the_overlay_of_the_home_counts_and_a_broken_one_is_wrong_usage(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAMWATT_HOME", str(tmp_path))
    file = tmp_path / "overlay.toml"
    file.write_text('[hardware.nvidia-l4]\nsource = "our limit"\ntdp_w = 60\n')
    assert "\ntdp_w\t60\n" in run("hardware", "L4").stdout
    assert "\noverlay\tour limit\n" in run("hardware", "L4").stdout
    file.write_text("[hardware.nvidia-l4]\ntdp_w = 60\n")
    broken = run("hardware", "L4")
    assert (broken.exit_code, broken.stdout) == (2, "")
    assert f"{file}: the overlay cannot be used: [hardware.nvidia-l4] needs source" in broken.stderr
    other = tmp_path / "other.toml"
    other.write_text('[zones.LAB]\nsource = "s"\ng_per_kwh = 10\nyear = 2026\n')
    monkeypatch.setenv("GRAMWATT_OVERLAY", str(other))
    assert document("zones", "lab")["matches"][0]["intensity_g_per_kwh"]["value"] == 10
    monkeypatch.setenv("GRAMWATT_OVERLAY", str(tmp_path / "absent.toml"))
    assert "cannot be read" in run("zones", "FR").stderr
