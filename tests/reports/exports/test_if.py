"""The exported manifest, run by the real Impact Framework, reaches the document's totals."""

import json
import os
import subprocess
import sys
from datetime import datetime
from functools import cache
from pathlib import Path

import msgspec
import pytest

from gramwatt.reports.exports.common import ExportError
from gramwatt.reports.exports.impact_framework import manifest
from tests.documents import cluster_job, cluster_journal, irregular_grid, scored

ROOT = Path(__file__).parents[3]
PATH = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
"""The development environment may hold a node of its own."""
READ_YAML = """
const yaml = require(process.argv[1]);
const text = require('fs').readFileSync(process.argv[2], 'utf8');
console.log(JSON.stringify(yaml.load(text)));
"""


RELATIVE_TOLERANCE = 1e-9


def expected(doc):
    """The totals that a run of the manifest must reach, by metric."""
    totals = {
        "energy": doc.energy_kwh,
        "carbon-operational": doc.operational_g,
        "carbon-embodied": doc.embodied_g,
        "carbon": doc.total_g,
    }
    sci = doc.total_g.value / doc.sci[0].count
    return {**{metric: figure.value for metric, figure in totals.items()}, "sci": sci}


@pytest.fixture(scope="session")
def if_run():
    """if-run of the npm package; without it the tests fail rather than skip."""
    done = subprocess.run(
        [ROOT / "scripts" / "ensure_if.sh"],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PATH": PATH},
    )
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


@pytest.fixture(scope="module")
def run(if_run, tmp_path_factory):
    """Run a manifest, once; if-run exits with 0 even when it failed, so its status is read."""

    environ, tmp_path = {**os.environ, "PATH": PATH}, tmp_path_factory.mktemp("manifests")

    @cache
    def run_manifest(text):
        source, target = tmp_path / "job.yml", tmp_path / "out"
        source.write_text(text, encoding="utf-8")
        line = [if_run, "-m", source, "-o", target]
        subprocess.run(line, check=True, capture_output=True, env=environ)
        reader = if_run.parents[1] / "js-yaml"
        done = subprocess.run(
            ["node", "-e", READ_YAML, reader, target.with_suffix(".yaml")],
            check=True,
            capture_output=True,
            text=True,
            env=environ,
        )
        output = json.loads(done.stdout)
        assert output["execution"]["status"] == "success", output["execution"].get("error")
        return output

    return run_manifest


JOBS = {
    "two GPUs over four hours of the grid": {},
    "two nodes, within seconds, in another script": {
        "nodes": ("n-a", "n-b"),
        "start": 0.417,
        "seconds": 7261.3,
        "name": "Übung: №1",
        "project": "größe",
    },
    "half a second": {"seconds": 0.5, "step_s": 0.5},
    "a day of quarter hours": {"seconds": 86_400.0, "intensity": irregular_grid(900.0)},
    "steps of less than a second": {
        "seconds": 7.3,
        "step_s": 0.9,
        "intensity": irregular_grid(0.4),
    },
    "annual intensity, one GPU, PUE not declared": {
        "intensity": irregular_grid(366 * 86_400.0, "annual"),
        "gpus": 1,
        "seconds": 1234.0,
        "pue": None,
    },
}
TWO_NODES = JOBS["two nodes, within seconds, in another script"]


@pytest.mark.parametrize("given", JOBS.values(), ids=JOBS)
def test_impact_framework_reaches_our_totals(run, given):
    doc = cluster_job(**given)
    totals = run(manifest(doc))["tree"]["aggregated"]
    assert {metric: totals[metric] for metric in expected(doc)} == {
        metric: pytest.approx(value, rel=RELATIVE_TOLERANCE)
        for metric, value in expected(doc).items()
    }
    assert totals["sci"] == pytest.approx(doc.sci[0].g_per_unit.value, rel=1e-9)


def test_every_device_has_its_own_totals(run):
    doc = cluster_job(**TWO_NODES)
    tree = run(manifest(doc))["tree"]["children"]
    for device in doc.devices:
        totals = tree[device.node]["children"][device.device_id]["aggregated"]
        energy, embodied = device.energy_j, device.embodied_g
        kwh = energy.value / 3.6e6 if energy else 0
        assert totals["energy"] == pytest.approx(kwh, rel=1e-9)
        grams = embodied.value if embodied else 0
        assert totals["carbon-embodied"] == pytest.approx(grams, rel=1e-9)


def test_nodes_of_their_own_length_and_pue_reach_our_totals(run):
    records = cluster_journal(nodes=("n-a",), seconds=9000.0, pue=1.21)
    records += cluster_journal(nodes=("n-b",), seconds=4000.0, pue=1.5)
    doc = scored(records, irregular_grid())
    totals = run(manifest(doc))["tree"]["aggregated"]
    for metric, value in expected(doc).items():
        assert totals[metric] == pytest.approx(value, rel=RELATIVE_TOLERANCE)
    times = {term.node: term.time_reserved_s for term in doc.embodied_terms}
    assert times == {"n-a": 9000, "n-b": 4000}


def test_all_components_share_one_grid_of_whole_seconds(run):
    tree = run(manifest(cluster_job(**TWO_NODES)))["tree"]["children"]
    grids = set()
    for node in tree.values():
        for component in node["children"].values():
            rows = component["inputs"]
            grids.add(tuple((row["timestamp"], row["duration"]) for row in rows))
    (grid,) = grids
    assert all(isinstance(length, int) and length >= 1 for _, length in grid)
    starts = [datetime.fromisoformat(stamp) for stamp, _ in grid]
    ends = [left.timestamp() + length for left, (_, length) in zip(starts, grid, strict=True)]
    assert ends[:-1] == [start.timestamp() for start in starts[1:]]
    assert grid[0][0] == "2026-05-01T08:00:00.000Z"


def test_an_altered_manifest_is_noticed(run):
    doc = cluster_job()
    text = manifest(doc)
    altered = text.replace("facility/pue: 1.21", "facility/pue: 1.12")
    assert altered != text
    totals = run(altered)["tree"]["aggregated"]
    assert totals["carbon"] != pytest.approx(expected(doc)["carbon"], rel=1e-3)


@pytest.mark.parametrize("plugin", ["TimeSync", "TimeConverter", "SciEmbodied"])
def test_unsound_plugins_are_not_used(plugin):
    assert plugin not in manifest(cluster_job())


def test_a_job_without_energy_has_no_manifest():
    doc = msgspec.structs.replace(cluster_job(), energy_kwh=None, operational_g=None, total_g=None)
    with pytest.raises(ExportError, match="energy not known"):
        manifest(doc)
