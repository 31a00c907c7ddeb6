"""MIG slices as present hardware and as targets."""

from __future__ import annotations

import pytest

from gramwatt.sci.catalog.slices import find_part, fitting_slice, slices_of
from gramwatt.sci.figures.errors import ScoreError
from tests.sci.advice.requests import A100, CATALOG, T4, ask, judged

OFFLINE = {"workload_class": "batch-inference", "framework": "tensorrt", "precision": "int8"}
OFFLINE |= {"hours": 100, "zone": "DE"}
SMALL, LARGER = f"{A100} MIG 1g.10gb", f"{A100} MIG 3g.40gb"


@pytest.mark.parametrize(
    ("part", "names"),
    [
        (A100, ["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"]),
        ("nvidia-a100-sxm4-40", ["1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"]),
        ("nvidia-gb200", ["1g.23gb", "1g.47gb", "2g.47gb", "3g.93gb", "4g.93gb", "7g.186gb"]),
        ("nvidia-a30", ["1g.6gb", "2g.12gb", "4g.24gb"]),
        (T4, []),
    ],
)
def test_slices_have_the_names_of_the_user_guide(part, names):
    assert [one.name for one in slices_of(CATALOG.hardware(part))] == names


def test_a_slice_as_target_has_the_measured_time_and_no_verdict():
    """BERT of MLPerf v2.0 ran at 3560.73 a second on an A100, at 491.834 on its 1g.10gb."""
    said = judged(SMALL, hardware=A100, **OFFLINE)
    time = said.time_ratio
    assert said.target == SMALL
    assert said.verdict == "unknown"
    assert time.low < 3560.73 / 491.834 < 7.3567 == time.value < time.high
    assert "no measurement tells it by slice" in said.reasons[0]
    assert judged(LARGER, hardware=A100, **OFFLINE).time_ratio is None  # not measured


def test_a_job_must_fit_the_memory_of_the_slice():
    said = judged(SMALL, hardware=A100, peak_memory_gb=12, **OFFLINE)  # 13.2 GiB with margin
    assert said.verdict == "not-feasible"
    assert f"more than 1 x 10 GiB of {SMALL}" in said.reasons[0]
    assert judged(LARGER, hardware=A100, peak_memory_gb=12, **OFFLINE).verdict == "unknown"


@pytest.mark.parametrize(("busy", "words"), [(0.1, "enough for"), (0.9, "less than")])
def test_a_slice_is_held_against_the_busy_share_of_its_board(busy, words):
    said = judged(SMALL, hardware=A100, utilisation=busy, **OFFLINE)
    assert any(f"14% of the processors: {words} the busy share" in one for one in said.reasons)


def test_a_job_on_a_slice_gets_times_and_the_boards_power_is_not_held_against_it():
    asked = {"hardware": "A100-SXM4-80GB MIG 1g.10gb", "mean_power_w": 30, **OFFLINE}
    answer = ask(**asked, candidates=[A100, T4, SMALL])
    said = {one.target: one for one in answer.suggestions if one.target}
    assert said[A100].time_ratio.value == pytest.approx(1 / 7.3567)
    # T4 over A100 by MLPerf, times the slice's: about as fast.
    assert 0.4 < said[T4].time_ratio.low < 1 < said[T4].time_ratio.high
    assert said[SMALL].verdict == "no-reliable-difference"
    assert {said[A100].verdict, said[T4].verdict} == {"unknown"}
    codes = {notice.code for notice in answer.notices}
    assert not codes & {"power-impossible", "long-inefficient"}
    assert judged(T4, **asked, peak_memory_gb=11).verdict == "unknown"  # the slice has 10


def test_a_slice_that_a_board_lacks_is_refused_with_those_it_has():
    with pytest.raises(ScoreError, match="nvidia-t4 has no MIG slice 1g.10gb; it has none"):
        judged(f"{T4} MIG 1g.10gb", hardware=A100, **OFFLINE)
    with pytest.raises(ScoreError, match="it has 1g.6gb, 2g.12gb, 4g.24gb"):
        ask(hardware="nvidia-a30 MIG 3g.18gb", **OFFLINE)


@pytest.mark.parametrize(
    ("name", "sevenths", "memory_gib"),
    [
        ("NVIDIA A100-SXM4-40GB MIG 1g.10gb", 1, 10),  # a quarter of the memory
        ("NVIDIA A100-SXM4-80GB MIG 1g.10gb+me", 1, 10),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", 1, 5),
        ("NVIDIA-A100-SXM4-40GB-MIG-2g.10gb-SHARED", 2, 10),
        ("NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb", 1, 40),
        ("NVIDIA GB200 MIG 1g.23gb", 1, 23),
        ("NVIDIA B300 SXM6 AC MIG 3g.135gb", 3, 135),
    ],
)
def test_a_slice_has_what_its_name_says(name, sevenths, memory_gib):
    _, on_slice = find_part(CATALOG, name)
    assert (on_slice.share, on_slice.memory_gib) == (pytest.approx(sevenths / 7), memory_gib)


@pytest.mark.parametrize("piece", ["3g.40gb", "4c.3g.20gb", "0c.3g.20gb", "1g.20gb", "5g.20gb"])
def test_a_profile_that_a_board_does_not_have_is_refused(piece):
    with pytest.raises(ScoreError, match=f"nvidia-a100-sxm4-40 has no MIG slice {piece}"):
        find_part(CATALOG, f"NVIDIA A100-SXM4-40GB MIG {piece}")


def test_the_smallest_slice_that_holds_a_job():
    board = CATALOG.hardware(A100)
    assert fitting_slice(board, 9, 0.1) == "1g.10gb"
    assert fitting_slice(board, 11, 0.1) == "1g.20gb"
    assert fitting_slice(board, 11, 0.2) == "2g.20gb"
    assert fitting_slice(board, 9, 0.4) == "3g.40gb"
    assert fitting_slice(board, 41, 0.1) is None


def test_a_slice_may_be_asked_for_without_present_hardware():
    asked = {"model_parameters": 3e8, "kind": "training", "tokens": 6e9, "zone": "NO"}
    said = {one.target: one for one in ask(**asked, candidates=[LARGER, T4]).suggestions}
    assert said[LARGER].verdict == "unknown"
    [reason] = said[LARGER].reasons
    assert "within 1 x 40 GiB" in reason  # and no device hours: there is no estimate of slices
    assert any("device hours" in reason for reason in said[T4].reasons)


def test_work_in_fp64_on_a_slice_has_no_time():
    asked = {**OFFLINE, "precision": "fp64"}
    said = judged(SMALL, hardware=T4, **asked)
    assert (said.verdict, said.time_ratio) == ("unknown", None)
