"""Windows: energy between two edges, by hand and by properties."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gramwatt.sci.records.merge import merge
from gramwatt.sci.records.records import Elsewhere
from gramwatt.sci.score.windows import WINDOWS_SHOWN, grouped
from tests.documents import CATALOG, scored
from tests.journals import FakeGrid, Writer, at


def window(writer, name, start, end, unit="window", amount=1.0):
    return writer.count(amount, unit, end, since=at(start), phase=name)


def job(writer, *lines, watts=100, seconds=600, **device):
    """A GPU of `watts` for some minutes, journaled in tens of seconds, and the given lines."""
    return [
        writer.job(units=("image",), zone="DE", pue=1.1, **device.pop("job", {})),
        writer.device(**device),
        *(writer.interval(n, n + 10, 10 * watts) for n in range(0, seconds, 10)),
        *lines,
        writer.end(seconds),
    ]


def rows(records):
    return scored(records).windows


def node(writer, *lines, joules=1000, start=0, end=600, **head):
    """The records of a node with a GPU of its own that joins another's job."""
    return [
        writer.job(units=("image",), **{"zone": "DE", "pue": 1.1, "started_at": at(start), **head}),
        writer.device(f"GPU-{writer.who['node']}"),
        *(
            writer.interval(n, n + 10, joules, f"GPU-{writer.who['node']}")
            for n in range(start, end, 10)
        ),
        *lines,
        writer.end(end),
    ]


def test_a_window_on_cuts_is_the_sum_of_its_intervals_and_per_unit():
    w = Writer()
    (row,) = rows(job(w, window(w, "epoch-1", 100, 400, "image", 60)))
    # 30 intervals of 1000 J
    assert (row.name, row.energy_j.value, row.energy_j.kind) == ("epoch-1", 30_000, "measured")
    assert row.counts == {"image": 60}
    assert row.energy_j_per_unit["image"].value == 500
    assert row.energy_j_per_unit["image"].unit == "J/image"
    assert (row.start, row.end) == ("2026-05-01T08:01:40.000000Z", "2026-05-01T08:06:40.000000Z")
    # +-5 % of what a counter measures
    assert row.energy_j.low == pytest.approx(28_500)


def test_an_edge_inside_an_interval_takes_its_part_by_time_as_an_estimate():
    w = Writer()
    (row,) = rows(job(w, window(w, "w", 105, 132)))
    # half of 1000 J, two whole ones and a fifth: 500 + 2000 + 200
    assert row.energy_j.value == pytest.approx(2_700)
    assert row.energy_j.kind == "estimated"
    # 700 J of it +-40 %, 2000 J +-5 %, independent of each other
    assert row.energy_j.high == pytest.approx(2_700 + math.hypot(0.4 * 700, 0.05 * 2_000), rel=0.01)


def test_a_window_inside_one_interval_is_a_part_of_it():
    w = Writer()
    (row,) = rows(job(w, window(w, "w", 102, 105)))
    assert row.energy_j.value == pytest.approx(300)


def test_an_unknown_device_leaves_the_window_unknown_and_not_smaller():
    w = Writer()
    lines = (window(w, "w", 100, 200), w.device("GPU-2"))
    (row,) = rows(job(w, *lines))
    assert (row.energy_j, row.below_resolution) == (None, False)
    names = ("energy_kwh", "operational_g", "embodied_g", "total_g")
    assert [getattr(row, name) for name in names] == [None] * 4


def test_windows_count_nothing_twice_and_change_no_score():
    plain, w = Writer(), Writer()
    without = scored(job(plain, plain.count(64)))
    lines = (w.count(64), window(w, "a", 0, 300, "image", 64), window(w, "b", 300, 600))
    found = scored(job(w, *lines))
    assert found.sci == without.sci
    assert found.energy_kwh == without.energy_kwh
    assert found.days == without.days
    assert [row.counts for row in found.windows] == [{"image": 64}, {}]


def test_nested_and_overlapping_windows_are_each_whole():
    w = Writer()
    lines = (window(w, "a", 0, 400), window(w, "a/b", 100, 200), window(w, "c", 350, 500))
    assert [(r.name, r.energy_j.value) for r in rows(job(w, *lines))] == [
        ("a", 40_000),
        ("a/b", 10_000),
        ("c", 15_000),
    ]


def test_the_same_window_of_several_ranks_is_one_and_its_counts_add_up():
    a, b = Writer("w1"), Writer("w2")
    lines = [
        window(a, "epoch-1", 10, 100, "image", 5),
        window(b, "epoch-1", 11, 103, "image", 7),
        window(a, "epoch-1", 110, 200, "image", 1),
        window(b, "epoch-1", 109, 199, "image", 2),
    ]
    found = grouped(lines)
    assert [(w.start, w.end, w.counts) for w in found] == [
        (at(10), at(103), {"image": 12}),
        (at(109), at(200), {"image": 3}),
    ]


def test_declared_factors_hold_within_windows_too():
    w = Writer()
    tags = {"convert.page": "500 token; our corpus; 2026-05-01"}
    lines = (w.count(4, "page"), window(w, "w", 0, 100, "page", 4))
    (row,) = rows(job(w, *lines, job={"tags": tags}))
    assert row.counts == {"token": 2_000}
    assert row.energy_j_per_unit["token"].value == 5


def test_more_windows_than_are_shown_leave_a_notice():
    w = Writer()
    lines = [window(w, f"s-{n}", n * 0.25, n * 0.25 + 0.25) for n in range(WINDOWS_SHOWN + 3)]
    found = scored(job(w, *lines))
    assert len(found.windows) == WINDOWS_SHOWN
    assert "windows-left-out" in [notice.code for notice in found.notices]


edges = st.lists(st.integers(0, 6000), min_size=2, max_size=6, unique=True).map(sorted)


@settings(max_examples=60, deadline=None)
@given(edges, st.randoms())
def test_windows_side_by_side_add_up_to_the_window_around_them(tenths, random):
    w = Writer()
    marks = [tenth / 10 for tenth in tenths]
    pairs = list(zip(marks, marks[1:], strict=False))
    lines = [window(w, f"p{n}", *pair) for n, pair in enumerate(pairs)]
    lines.append(window(w, "all", marks[0], marks[-1]))
    records = job(w, *lines)
    random.shuffle(records)
    found = {row.name: row for row in rows(records)}
    parts = [row.energy_j for name, row in found.items() if name != "all"]
    short = {f"p{n}" for n, (start, end) in enumerate(pairs) if round(end - start, 6) < 0.2}
    assert {name for name, row in found.items() if row.below_resolution} - {"all"} == short
    if all(parts) and found["all"].energy_j:
        whole = found["all"].energy_j.value
        assert sum(part.value for part in parts) == pytest.approx(whole, rel=1e-9)
        assert whole == pytest.approx(100 * (marks[-1] - marks[0]), rel=1e-9)


def test_the_order_of_lines_does_not_matter():
    w = Writer()
    lines = [window(w, "a", n, n + 5, "image", n) for n in range(0, 50, 5)]
    assert grouped(lines) == grouped(lines[::-1])
    again = merge([w.job(), *lines, *(replace(line) for line in lines)])
    assert grouped(again.windows) == grouped(lines)


def test_a_window_carries_kwh_and_grams_like_the_job():
    w = Writer()
    whole = scored(job(w, window(w, "all", 0, 600, "image", 60), window(w, "half", 0, 300)))
    all_of_it, half = whole.windows
    for name in ("energy_kwh", "operational_g", "embodied_g", "total_g"):
        assert getattr(all_of_it, name).value == pytest.approx(getattr(whole, name).value), name
        assert getattr(all_of_it, name).low == pytest.approx(getattr(whole, name).low), name
        assert getattr(all_of_it, name).high == pytest.approx(getattr(whole, name).high), name
        assert getattr(all_of_it, name).unit == getattr(whole, name).unit
        assert getattr(half, name).value == pytest.approx(getattr(whole, name).value / 2), name
    # 100 W x 300 s = 30 kJ
    assert half.energy_kwh.value == pytest.approx(30_000 / 3.6e6)


def test_what_the_grid_cuts_stays_measured():
    """600 s at a counter; the grid's steps of 7 s end inside intervals, the window's own do not."""
    w = Writer()
    document = scored(job(w, window(w, "all", 0, 600)), FakeGrid(100, 300, step_s=7))
    (row,) = document.windows
    for end in ("value", "low", "high"):
        whole = getattr(document.operational_g, end)
        assert getattr(row.operational_g, end) == pytest.approx(whole, rel=1e-9)
    assert row.operational_g.kind == document.operational_g.kind


def test_nodes_of_a_window_keep_their_own_zone_and_pue():
    """Over the whole of a job on two nodes, a window has the job's O."""
    one, two = Writer("w1", "n-1"), Writer("w2", "n-2")
    there = node(two, window(two, "all", 0, 600), joules=5000, zone="FR", pue=1.5)
    document = scored([*job(one, window(one, "all", 0, 600)), *there])
    (row,) = document.windows
    assert row.operational_g.value == pytest.approx(document.operational_g.value)
    # Germany: 60 kJ at PUE 1.1; France: 300 kJ at PUE 1.5.
    german, french = (CATALOG.zone(key).intensity.value for key in ("DE", "FR"))
    by_hand = (60e3 * german * 1.1 + 300e3 * french * 1.5) / 3.6e6
    assert row.operational_g.value == pytest.approx(by_hand, rel=1e-9)


def requeued():
    """A job of two runs on a node, with ten minutes between them in which it was not reserved."""
    one, two = Writer("w1", "n-1"), Writer("w2", "n-1")
    again = node(two, window(two, "second", 900, 1500), start=900, end=1500)
    return [*node(one, window(one, "first", 0, 300), end=300), *again]


def test_windows_over_all_reserved_time_have_all_of_embodied_carbon():
    document = scored(requeued())
    first, second = document.windows
    reserved_s = {term.time_reserved_s for term in document.embodied_terms}
    assert reserved_s == {900}
    for end in ("value", "low", "high"):
        whole = getattr(document.embodied_g, end)
        assert getattr(first.embodied_g, end) == pytest.approx(whole / 3, rel=1e-9)
        assert getattr(second.embodied_g, end) == pytest.approx(whole * 2 / 3, rel=1e-9)


def test_a_window_has_the_embodied_carbon_of_the_nodes_reserved_in_it():
    """The second node joins for the last half; it is charged to the window of that half alone."""
    one, two = Writer("w1", "n-1"), Writer("w2", "n-2")
    lines = window(one, "alone", 0, 300), window(one, "both", 300, 600)
    document = scored([*job(one, *lines), *node(two, start=300)])
    own = dict.fromkeys(("n-1", "n-2"), 0.0)
    for term in document.embodied_terms:
        own[term.node] += term.embodied_g.value
    alone, both = (row.embodied_g.value for row in document.windows)
    assert alone == pytest.approx(own["n-1"] / 2, rel=1e-9)
    assert both == pytest.approx(own["n-1"] / 2 + own["n-2"], rel=1e-9)


def test_a_window_of_time_that_counts_in_another_job_has_none_of_the_embodied_carbon():
    """A meter had the first 200 s: of those this job is charged nothing, in windows and days."""
    w = Writer()
    taken = (Elsewhere(at(0), at(200), 1.0),)
    lines = window(w, "first", 0, 200), window(w, "second", 200, 600)
    document = scored(job(w, *lines, job={"reporter": "node"}, elsewhere=taken))
    first, second = document.windows
    assert {term.time_reserved_s for term in document.embodied_terms} == {400}
    assert first.embodied_g.value == 0
    assert second.embodied_g.value == pytest.approx(document.embodied_g.value, rel=1e-9)


def test_no_step_of_a_gap_between_runs_is_reserved():
    document = scored(requeued())
    steps = document.steps
    assert sum(steps.reserved_s) == pytest.approx(900)
