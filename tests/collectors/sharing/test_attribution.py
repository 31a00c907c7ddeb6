"""Shared boards: whatever the tenants, their parts and the unallocated rest are the whole."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gramwatt.collectors.sharing.attribution import Tenant, shares, split

uses = st.one_of(st.none(), st.floats(0, 100))
parts = st.one_of(st.none(), st.floats(0, 1))
tenants = st.lists(st.tuples(uses, parts), max_size=9).map(
    lambda rows: [Tenant(f"t{n}", use, part) for n, (use, part) in enumerate(rows)]
)
joules = st.floats(0, 1e9)


@settings(max_examples=150, deadline=None)
@given(joules, joules, tenants)
def test_the_parts_and_the_rest_are_the_whole_and_none_is_negative(
    energy_j: float, idle_j: float, board: list[Tenant]
) -> None:
    done = split(energy_j, idle_j, board)
    assert sum(done.energy_j.values()) + done.unallocated_j == pytest.approx(energy_j, abs=1e-6)
    assert min([*done.energy_j.values(), 0.0]) == 0
    assert done.unallocated_j >= -1e-6 * max(1.0, energy_j)


@settings(max_examples=50, deadline=None)
@given(joules, joules, tenants, st.randoms())
def test_the_order_of_tenants_changes_nothing(energy_j, idle_j, board, random) -> None:  # type: ignore[no-untyped-def]
    mixed = list(board)
    random.shuffle(mixed)
    assert split(energy_j, idle_j, mixed).energy_j == pytest.approx(
        split(energy_j, idle_j, board).energy_j
    )


@settings(max_examples=50, deadline=None)
@given(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 1e6), tenants)
def test_two_spans_cost_what_they_cost_together(
    first_j: float, second_j: float, idle_j: float, board: list[Tenant]
) -> None:
    idle = (min(idle_j, first_j), min(idle_j, second_j))
    apart = [split(e, i, board).energy_j for e, i in zip((first_j, second_j), idle, strict=True)]
    whole = split(first_j + second_j, sum(idle), board).energy_j
    for name, energy in whole.items():
        assert energy == pytest.approx(sum(one[name] for one in apart), rel=1e-6, abs=1e-6)


def test_dynamic_goes_by_use_and_idle_by_reservation() -> None:
    # 1000 J of which 100 idle: 900 by use 3 to 1, 100 by reserved quarters and a half left over
    board = [Tenant("a", 60, 0.25), Tenant("b", 20, 0.25)]
    done = split(1000, 100, board)
    assert done.energy_j == pytest.approx({"a": 675 + 25, "b": 225 + 25})
    assert done.unallocated_j == pytest.approx(50)


def test_where_nobody_worked_or_nobody_knows_the_reservation_decides() -> None:
    # 2 of 7 and 1 of 7 compute slices: 4 of 7 are nobody's
    board = [Tenant("a", 0, 2 / 7), Tenant("b", None, 1 / 7)]
    done = split(700, 140, board)
    assert done.energy_j == pytest.approx({"a": 200, "b": 100})
    assert done.unallocated_j == pytest.approx(400)


def test_where_no_part_is_known_it_is_shared_evenly() -> None:
    assert split(90, 90, [Tenant("a"), Tenant("b", 5), Tenant("c", None, 0.9)]).energy_j == {
        "a": 30,
        "b": 30,
        "c": 30,
    }


def test_more_than_the_whole_cannot_be_reserved() -> None:
    found = shares([Tenant("a", None, 0.8), Tenant("b", None, 0.8)])
    assert [part.idle for part in found.values()] == [0.5, 0.5]


def test_a_board_of_nobody_is_unallocated() -> None:
    assert split(50, 10, []) == ({}, 50)
