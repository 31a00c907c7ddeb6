"""The self-audit passes an honest document and catches each kind of slip."""

import copy

import pytest

from gramwatt.sci.analysis.audit import self_audit
from tests.documents import cluster_job

DOCUMENT = cluster_job()


def failed(**changes):
    """Names of the checks that fail after setting figures by dotted path."""
    doc = copy.deepcopy(DOCUMENT)
    for path, value in changes.items():
        *parents, last = path.split("__")
        target = doc
        for key in parents:
            target = target[int(key) if key.isdigit() else key]
        target[last] = value(target[last]) if callable(value) else value
    return {row["check"] for row in self_audit(doc) if not row["passed"]}


def test_an_engine_document_passes_every_check():
    rows = self_audit(DOCUMENT)
    assert [row["check"] for row in rows if not row["passed"]] == []
    assert len(rows) == 13


def by(factor):
    return lambda value: value * factor


@pytest.mark.parametrize(
    ("path", "check"),
    [
        ("operational_g__value", "O = E x I x PUE"),
        ("total_g__value", "C = O + M"),
        ("devices__0__energy_j__value", "sum of component energies = E"),
        ("embodied_terms__0__embodied_g__value", None),
        ("embodied_terms__2__embodied_g__value", "sum of component M = M"),
        ("sci__0__g_per_unit__value", "SCI = C / R per token"),
    ],
)
def test_a_slip_beyond_one_percent_is_caught(path, check):
    found = failed(**{path: by(1.05)})
    # The first GPU's embodied carbon is 9 % of M, so 5 % of it stays within 1 % of the whole.
    assert (check in found) if check else not found


def test_a_slip_within_one_percent_passes():
    assert failed(total_g__value=by(1.009)) == set()
    assert failed(total_g__value=by(1.011)) >= {"C = O + M"}


@pytest.mark.parametrize(
    ("path", "value", "check"),
    [
        ("method__pue__value", 0.9, "PUE"),
        ("method__pue__value", 3.1, "PUE"),
        ("embodied_terms__0__lifetime_years", 1.5, "shortest EL in years"),
        ("embodied_terms__2__lifetime_years", 8.0, "longest EL in years"),
        ("method__intensity_g_per_kwh__value", 2100.0, "I in gCO2e/kWh"),
        ("embodied_terms__2__resources_reserved", 9.0, "largest RR/ToR"),
        ("embodied_terms__0__resources_reserved", 0.0, "smallest RR/ToR"),
        ("ended_at", None, "the period has ended and ends after it starts"),
        ("ended_at", "2026-04-30T00:00:00Z", "the period has ended and ends after it starts"),
    ],
)
def test_implausible_figures_are_caught(path, value, check):
    assert check in failed(**{path: value})


def test_unknown_figures_fail_rather_than_pass():
    found = failed(operational_g=None, total_g=None, sci__0__g_per_unit=None)
    assert found == {"O = E x I x PUE", "C = O + M", "SCI = C / R per token"}
