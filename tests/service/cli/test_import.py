"""`gramwatt import codecarbon`: an emissions.csv becomes jobs, and again nothing."""

import csv
import json
from pathlib import Path

import pytest

from gramwatt.service.imports.codecarbon import boards
from tests.service.cli.command import gramwatt

pytestmark = pytest.mark.usefixtures("home")

HEADER = """
timestamp project_name run_id experiment_id duration emissions emissions_rate cpu_power
gpu_power ram_power cpu_energy gpu_energy ram_energy energy_consumed water_consumed
country_name country_iso_code region cloud_provider cloud_region os python_version
codecarbon_version cpu_count cpu_model gpu_count gpu_model longitude latitude ram_total_size
tracking_mode cpu_utilization_percent gpu_utilization_percent ram_utilization_percent
ram_used_gb on_cloud pue wue
"""
V3 = HEADER.split()
LATER = {"water_consumed", "cpu_utilization_percent", "gpu_utilization_percent", "wue"}
LATER |= {"ram_utilization_percent", "ram_used_gb", "pue", "experiment_id"}
V2 = [name for name in V3 if name not in LATER]
"""The columns of version 2, which knew neither experiments nor the PUE in the file."""
RUN = "ff3b9b09-0000-4000-8000-00000000000"


def row(number=1, **more):
    """An hour on two A100 in France: 0.036 + 0.6 + 0.024 kWh."""
    return {
        "timestamp": "2026-05-10T12:00:00",
        "project_name": "vision",
        "run_id": f"{RUN}{number}",
        "experiment_id": "5b0fa12a-3dd7-45bb-9766-cc326314d9f1",
        "duration": "3600.0",
        "emissions": "0.03696",
        "emissions_rate": "1.0266e-05",
        "cpu_energy": "0.036",
        "gpu_energy": "0.6",
        "ram_energy": "0.024",
        "energy_consumed": "0.66",
        "country_name": "France",
        "country_iso_code": "FRA",
        "codecarbon_version": "3.3.2",
        "cpu_count": "16",
        "cpu_model": "AMD EPYC 7763 64-Core Processor",
        "gpu_count": "2",
        "gpu_model": "2 x NVIDIA A100-SXM4-80GB",
        "longitude": "2.3",
        "latitude": "48.8",
        "ram_total_size": "256",
        "tracking_mode": "machine",
        "on_cloud": "N",
        "pue": "1.0",
        **more,
    }


@pytest.fixture
def emissions(tmp_path):
    def write(*rows, columns=V3, name="emissions.csv"):
        path = tmp_path / name
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, columns, restval="", extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)
        return str(path)

    return write


def imported(path, *options):
    code, out, err = gramwatt("import", "codecarbon", path, "--timezone", "UTC", "--json", *options)
    return code, json.loads(out), err


def job(job_id):
    return json.loads(gramwatt("job", job_id, "--json")[1])


@pytest.mark.parametrize("columns", [V2, V3])
def test_every_row_is_a_job_with_our_terms(emissions, columns):
    path = emissions(row(1), row(2, project_name="speech", run_id=f"{RUN}2"), columns=columns)
    code, answer, _ = imported(path)
    assert (code, answer["imported"]) == (0, [f"codecarbon-{RUN}{n}" for n in (1, 2)])
    found = job(f"codecarbon-{RUN}1")
    assert (found["project"], found["state"], found["zone"]) == ("vision", "completed", "FR")
    assert (found["started_at"], found["ended_at"]) == (
        "2026-05-10T11:00:00.000000Z",
        "2026-05-10T12:00:00.000000Z",
    )
    assert found["energy_kwh"]["value"] == pytest.approx(0.66, rel=1e-12)
    assert found["embodied_g"]["value"] > 0
    by_class = {}
    for device in found["devices"]:
        if device["energy_j"]:
            joules = by_class.get(device["class"], 0) + device["energy_j"]["value"]
            by_class[device["class"]] = joules
    # 0.036 kWh is 129.6 kJ, 0.6 kWh 2160 kJ, 0.024 kWh 86.4 kJ.
    assert by_class == pytest.approx({"cpu": 129_600.0, "gpu": 2_160_000.0, "ram": 86_400.0})


def test_importing_again_changes_nothing(emissions):
    path = emissions(row(1), row(2))
    imported(path)
    before = gramwatt("jobs", "--json")[1]
    code, answer, _ = imported(path)
    assert (code, answer["imported"], answer["updated"], answer["duplicate"]) == (0, [], [], 2)
    assert gramwatt("jobs", "--json")[1] == before


def test_of_several_rows_of_a_run_the_longest_counts_once(emissions):
    halfway = {"timestamp": "2026-05-10T11:30:00", "duration": "1800.4", "gpu_energy": "0.3"}
    path = emissions(row(1, **halfway), row(1), row(1))
    code, answer, _ = imported(path)
    assert (code, len(answer["imported"])) == (0, 1)
    assert (answer["superseded"], answer["duplicate"]) == (1, 1)
    found = job(f"codecarbon-{RUN}1")
    assert found["energy_kwh"]["value"] == pytest.approx(0.66, rel=1e-12)


def test_a_longer_row_of_a_run_replaces_the_one_imported_before(emissions):
    """As when the file was imported while the run went on; over more than a day too."""
    days = {"timestamp": "2026-05-10T12:00:00", "duration": "93600.7", "gpu_energy": "15.0"}
    imported(emissions(row(1, **days)))
    days = {"timestamp": "2026-05-12T12:00:00", "duration": "266400.2", "gpu_energy": "30.0"}
    code, answer, _ = imported(emissions(row(1, **days)))
    assert (code, answer["updated"]) == (0, [f"codecarbon-{RUN}1"])
    found = job(f"codecarbon-{RUN}1")
    assert found["energy_kwh"]["value"] == pytest.approx(30.06, rel=1e-9)
    assert found["duration_s"] == pytest.approx(266400.2, abs=1e-3)
    code, answer, _ = imported(emissions(row(1, **days)))
    assert answer["duplicate"] == 1


def test_bad_rows_are_named_by_line_and_the_others_go_on(emissions):
    path = emissions(
        row(1, duration="abc"),
        row(2, timestamp="yesterday"),
        row(3, gpu_energy="-1"),
        row(4, cpu_energy="nan"),
        row(5, gpu_energy="100"),
        row(6, pue="0.5"),
        row(7),
        row(8, run_id="../../etc"),
    )
    with open(path, "a") as file:
        file.write("torn,row\n")
    code, answer, err = imported(path)
    assert code == 1
    assert answer["imported"] == [f"codecarbon-{RUN}7"]
    named = {item["line"]: item["message"] for item in answer["rejected"]}
    # 100 kWh in an hour are 50 kW in each of the two boards.
    assert "is more than a gpu device can draw" in named.pop(6)
    assert {line: message.split()[0] for line, message in named.items()} == {
        2: "duration",
        3: "timestamp",
        4: "gpu_energy",
        5: "cpu_energy",
        7: "pue",
        9: "run_id",
        10: "has",
    }
    code, out, err = gramwatt("import", "codecarbon", path)
    assert out == "imported 0 jobs, 1 already there, 8 refused\n"
    assert f"{path}, line 2: duration is 'abc', not a number" in err
    assert len(json.loads(gramwatt("jobs", "--json")[1])["jobs"]) == 1


def test_the_energy_of_codecarbon_holds_its_pue_which_counts_once(emissions):
    imported(emissions(row(1, pue="1.2")))
    found = job(f"codecarbon-{RUN}1")
    # 0.66 kWh with the PUE are 0.55 kWh of the machine.
    assert found["energy_kwh"]["value"] == pytest.approx(0.55, rel=1e-12)
    assert (found["method"]["pue"]["value"], found["method"]["pue"]["kind"]) == (1.2, "declared")
    bare = found["operational_g"]["value"] / 1.2
    assert bare == pytest.approx(0.55 * intensity("FR"), rel=1e-9)


def intensity(zone):
    from gramwatt.collectors.settings.catalogs import read_catalog

    return read_catalog(None).zone(zone).intensity.value


def test_the_place_of_a_row(emissions):
    fallback = {"latitude": "46.8", "longitude": "-71.2"}
    gcp = {"cloud_provider": "gcp", "on_cloud": "Y"}
    places = [
        ({"country_iso_code": "CAN", "region": "quebec", "latitude": "46.81"}, "CA-QC", None),
        ({"country_iso_code": "CAN", "region": "Quebec", **fallback}, None, None),
        ({"country_iso_code": "USA", "region": "california"}, "US-CAL-CISO", None),
        ({"country_iso_code": "SWE", "region": "SE3"}, "SE-SE3", None),
        ({"country_iso_code": "USA", "region": "florida"}, "US", None),
        ({"country_iso_code": "USA", "region": "guadeloupe"}, "US", None),
        ({"country_iso_code": "", "region": ""}, None, None),
        ({**gcp, "cloud_region": "europe-west1"}, "BE", "gcp:europe-west1"),
        ({**gcp, "cloud_region": "moon-1"}, "FR", "gcp:moon-1"),
    ]
    imported(emissions(*(row(n, **fields) for n, (fields, _, _) in enumerate(places))))
    heads = json.loads(gramwatt("jobs", "--json")[1])["jobs"]
    found = {head["job_id"]: head for head in heads}
    for number, (_, zone, region) in enumerate(places):
        head = found[f"codecarbon-{RUN}{number}"]
        assert (head["zone"], head["region"]) == (zone, region)
        assert (head["conformance"] == "not-sci") == (zone is None)
    said = {
        number: json.dumps(json.loads(gramwatt("job", f"codecarbon-{RUN}{number}", "--json")[1]))
        for number in range(len(places))
    }
    # What is not as fine as the file says is said; a region that is not known is a data centre.
    assert "'florida' lies in US-FLA" in said[4]
    assert "'guadeloupe' is not one of the" in said[5]
    assert "unknown region 'gcp:moon-1'" in said[8]
    assert json.loads(said[8])["method"]["pue"]["value"] == 1.56


def test_runs_without_an_id_are_told_apart_by_their_figures(emissions):
    """codecarbon that also sends to an API writes `None` into the file."""
    path = emissions(row(run_id="None"), row(run_id="None", duration="3599.0"))
    assert len(imported(path)[1]["imported"]) == 2
    assert imported(path)[1]["duplicate"] == 2


def test_a_deleted_run_stays_deleted(emissions):
    path = emissions(row(1))
    imported(path)
    gramwatt("rm", f"codecarbon-{RUN}1", "--yes")
    code, answer, _ = imported(path)
    assert (code, [item["code"] for item in answer["rejected"]]) == (1, ["deleted-job"])


def test_times_are_of_the_zone_that_is_named(emissions):
    path = emissions(row(1))
    gramwatt("import", "codecarbon", path, "--timezone", "Asia/Tokyo")
    found = job(f"codecarbon-{RUN}1")
    assert found["ended_at"] == "2026-05-10T03:00:00.000000Z"


def test_energy_of_zero_is_energy_that_was_not_measured(emissions):
    imported(emissions(row(1, gpu_energy="0.0")))  # codecarbon could not read the boards it names
    document = job(f"codecarbon-{RUN}1")
    energies = [device["energy_j"] for device in document["devices"] if device["class"] == "gpu"]
    assert energies
    assert set(energies) == {None}
    codes = {notice["code"] for notice in document["notices"]}
    assert {"energy-unmeasured", "codecarbon-limits"} <= codes


def test_several_kinds_of_boards_are_told_apart():
    assert boards("2 x A1 x B", 3) == ("A", "A", "B")
    assert boards("8 x NVIDIA H100 80GB HBM3", 8) == ("NVIDIA H100 80GB HBM3",) * 8
    assert boards("16 x NVIDIA H100 80GB HBM3", 16) == ("NVIDIA H100 80GB HBM3",) * 16
    assert boards("1 x NVIDIA H100 80GB HBM31 x NVIDIA L4", 2) == (
        "NVIDIA H100 80GB HBM3",
        "NVIDIA L4",
    )
    assert boards("Apple M2", 1) == ("Apple M2",)
    assert boards("", 2) == ("unknown GPU",) * 2
    assert boards("2 x X", 5) == ("2 x X",) * 5  # it does not add up, so it is not taken apart


@pytest.mark.parametrize(
    ("encoding", "delimiter"), [("utf-8", ";"), ("utf-16", "\t"), ("utf-8-sig", ",")]
)
def test_a_file_as_a_spreadsheet_saves_it(emissions, encoding, delimiter):
    path = Path(emissions(row(1), row(2)))
    path.write_bytes(path.read_text().replace(",", delimiter).encode(encoding))
    code, answer, _ = imported(str(path))
    assert (code, len(answer["imported"])) == (0, 2)


@pytest.mark.parametrize(("text", "says"), [("", "empty"), ("sep=;\na;b\n", "delete it")])
def test_a_file_that_has_no_table_says_what_it_is_instead(tmp_path, text, says):
    (tmp_path / "emissions.csv").write_text(text)
    code, _, err = gramwatt("import", "codecarbon", str(tmp_path / "emissions.csv"))
    assert (code, says in err) == (2, True), err


def test_files_that_are_none(emissions, tmp_path):
    path = emissions(row(1), columns=["timestamp", "duration", "energy_consumed"])
    code, out, err = gramwatt("import", "codecarbon", path)
    assert (code, out) == (2, "")
    assert "no column 'cpu_energy'" in err
    code, _, err = gramwatt("import", "codecarbon", str(tmp_path / "none.csv"))
    assert (code, "cannot read" in err) == (2, True)
    code, _, err = gramwatt("import", "codecarbon", path, "--timezone", "Mars")
    assert (code, "Europe/Paris" in err) == (2, True)
