"""A model over all its runs, by arithmetic done by hand."""

import pytest
from msgspec.structs import replace

from tests.documents import journal_of, model_totals, scored
from tests.journals import H100, at
from tests.months import month_document
from tests.sci.score.test_location import scored as placed


def run(name, *, kind="training", state="completed", tokens=0.0, start=0, unread=False, **job):
    """A run of model m-1: one H100 for 60 s, and tokens where it got that far."""
    board = ("GPU-1", H100, [] if unread else [(start, start + 60, 36_000)])
    head = {"zone": "FR", "model_id": "m-1", "units": ("token",), "kind": kind, **job}
    counts = [lambda writer: writer.count(tokens, "token", seconds=start + 1)] if tokens else []
    *records, end = journal_of(
        board, job_id=name, more=counts, started_at=at(start), end_s=start + 60, **head
    )
    return scored([*records, replace(end, state=state)])


def test_what_failed_was_killed_and_swept_belongs_to_the_model():
    runs = [
        run("a", tokens=1000),
        run("b", state="failed", tokens=200),
        run("c", state="killed"),
        run("d", kind="evaluation"),
    ]
    model = model_totals("m-1", reversed(runs))
    (part,) = model.parts
    one = runs[0].total_g.value
    assert (part.persona, part.jobs, part.jobs_unknown) == ("provider", 4, 0)
    assert part.states == {"completed": 2, "failed": 1, "killed": 1}
    assert part.total_g.value == pytest.approx(4 * one)
    assert part.energy_kwh.value == pytest.approx(0.04)
    assert part.by_kind["training"].value == pytest.approx(3 * one)
    assert part.by_kind["evaluation"].value == pytest.approx(one)
    # sum(C) / sum(R): the carbon of all four over 1200 tokens, also of those without tokens.
    (row,) = part.sci
    assert (row.unit, row.count) == ("token", 1200)
    assert row.g_per_unit.value == pytest.approx(4 * one / 1200)
    assert (model.complete, model.missing) == (True, [])


def test_making_and_using_a_model_are_never_added():
    runs = [run("a", tokens=1000), run("b", kind="inference", tokens=10), run("c", kind="other")]
    parts = model_totals("m-1", runs).parts
    assert [part.persona for part in parts] == ["provider", "consumer", "other"]
    one = runs[0].total_g.value
    for part in parts:
        assert part.total_g.value == pytest.approx(one)
    assert parts[1].sci[0].g_per_unit.value == pytest.approx(one / 10)


def test_the_models_size_counts_once_whatever_the_number_of_runs():
    tags = {"model_parameters": "7e9"}
    runs = [run("a", tags=tags), run("b", tags=tags), run("c")]
    (part,) = model_totals("m-1", runs).parts
    rows = {row.unit: row for row in part.sci}
    assert rows["billion parameters"].count == pytest.approx(7)
    three = 3 * runs[0].total_g.value
    assert rows["billion parameters"].g_per_unit.value == pytest.approx(three / 7)
    assert rows["job"].count == 3


def test_runs_that_disagree_on_the_models_size_give_no_score_by_size():
    runs = [run("a", tags={"model_parameters": "7e9"}), run("b", tags={"model_parameters": "8e9"})]
    model = model_totals("m-1", runs)
    assert [row.unit for row in model.parts[0].sci] == ["job"]
    assert model.missing == ["the runs disagree on the model's parameters: 7e+09, 8e+09"]


def test_a_sweep_with_missing_runs_is_not_complete():
    tags = {"sweep": "lr", "sweep_runs": "3"}
    runs = [run("a", tags=tags), run("b", tags=tags)]
    assert model_totals("m-1", runs).missing == ["sweep lr: 2 of 3 runs are known"]
    assert model_totals("m-1", [*runs, run("c", tags=tags)]).complete is True


def close(figure):
    """The figure's numbers, which a document keeps with six digits of their uncertainty."""
    return pytest.approx((figure.value, figure.low, figure.high), rel=1e-6)


def test_an_unknown_run_is_in_no_sum_and_said():
    runs = [run("a", tokens=1000), run("b", tokens=500, unread=True)]
    model = model_totals("m-1", runs, unscored=2)
    (part,) = model.parts
    assert (model.jobs, part.jobs, part.jobs_unknown) == (4, 2, 1)
    total = part.total_g
    assert (total.value, total.low, total.high) == close(runs[0].total_g)
    assert part.sci[0].count == 1000
    assert part.conformance == "not-sci"
    assert model.missing == [
        "runs without a score yet, or not ended: 2",
        "runs with a term that is not known, in no sum: 1",
    ]


def test_runs_of_two_signals_are_never_summed():
    runs = [run("a", tokens=1000), run("b", tokens=1000)]
    runs[1].method.intensity_signal = "marginal"
    model = model_totals("m-1", runs)
    assert model.parts[0].total_g is None
    assert model.parts[0].sci == []
    said = "runs are scored with average lifecycle and marginal lifecycle intensity"
    assert model.missing == [f"{said}, which cannot be summed"]


def test_a_model_nobody_ran_has_no_parts():
    assert model_totals("m-9", []).parts == []


def test_a_month_has_its_models_runs_by_persona():
    runs = [
        run("a", tokens=10),
        run("b", state="failed", tokens=10),
        run("c", kind="inference", tokens=10),
        placed({"zone": "FR", "pue": 1.0}),
    ]
    month = month_document("2026-05", runs)
    rows = [(r.model_id, r.persona, r.jobs, r.unfinished) for r in month.models]
    assert rows == [("m-1", "consumer", 1, 0), ("m-1", "provider", 2, 1)]
    made = month.models[1].total_g.value
    assert made == pytest.approx(2 * runs[0].total_g.value)
