"""The CSV: every figure once, unknown ones empty, sums that meet the document."""

import csv
import io

import msgspec
import pytest

from gramwatt.reports.exports.csv import COLUMNS, scicsv
from tests.documents import cluster_job


def rows(doc):
    return list(csv.DictReader(io.StringIO(scicsv(doc), newline="")))


def only(found, **wanted):
    return [row for row in found if all(row[key] == value for key, value in wanted.items())]


def test_the_jobs_figures_stand_with_their_ranges():
    doc = cluster_job()
    found = rows(doc)
    assert tuple(found[0]) == COLUMNS
    (total,) = only(found, level="job", figure="total")
    figure = doc.total_g
    assert [float(total[k]) for k in ("value", "low", "high")] == [
        getattr(figure, k) for k in ("value", "low", "high")
    ]
    assert (total["unit"], total["kind"], total["source"]) == (
        figure.unit,
        figure.kind,
        figure.source,
    )


def test_steps_add_up_to_devices_and_devices_to_the_job():
    doc = cluster_job(nodes=("n-a", "n-b"))
    found = rows(doc)
    for device in only(found, level="device", figure="energy", **{"class": "gpu"}):
        steps = only(found, level="step", figure="energy", device_id=device["device_id"])
        joules = sum(float(step["value"]) for step in steps)
        assert joules == pytest.approx(float(device["value"]), rel=1e-12)
    devices = [r for r in only(found, level="device", figure="energy") if r["value"]]
    joules = sum(float(row["value"]) for row in devices)
    assert joules / 3.6e6 == pytest.approx(doc.energy_kwh.value, rel=1e-12)


def test_an_unknown_figure_is_an_empty_cell():
    found = rows(msgspec.structs.replace(cluster_job(), total_g=None))
    (total,) = only(found, level="job", figure="total")
    assert total["value"] == ""


def test_a_name_with_quotes_comes_back_whole_and_on_one_line():
    found = rows(msgspec.structs.replace(cluster_job(), name='a "b", c\nd'))
    assert found[0]["name"] == 'a "b", c d'
