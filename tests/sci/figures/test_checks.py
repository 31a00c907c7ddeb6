"""The one check: what named types accept, what they refuse, and with which words."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import UNSET, UnsetType

from gramwatt.sci.figures.checks import (
    Amount,
    Counts,
    Fraction,
    InputError,
    Moment,
    Text,
    Whole,
    checked,
    parse,
    refuse_both,
)
from gramwatt.sci.figures.errors import ScoreError


class Example(msgspec.Struct, frozen=True, kw_only=True):
    name: Text | None = None
    other: Text | None = None
    count: Whole | None = None
    host: bool = True
    units: Counts = msgspec.field(default_factory=dict)
    zone: Text | None | UnsetType = UNSET


def test_what_is_not_given_and_what_is_null_take_the_default():
    assert parse(Example, {}) == parse(Example, {"host": None, "units": None}) == Example()
    assert parse(Example, {"zone": None}).zone is None  # which differs from "not given"
    assert parse(Example, {"count": "3", "host": "true"}, strict=False) == Example(count=3.0)


def test_a_wrong_object_says_all_that_is_wrong_with_codes_and_places():
    wrong = {"colour": 1, "count": 1.5, "name": " ", "units": {"token": 0}}
    with pytest.raises(InputError) as refused:
        parse(Example, wrong)
    assert [(p.field, p.code) for p in refused.value.problems] == [
        ("colour", "unknown-field"),
        ("count", "bad-field"),
        ("name", "bad-field"),
        ("units", "bad-field"),
    ]
    told = "field 'colour' is not known; known: name, other, count, host, units, zone"
    assert refused.value.message == told
    assert refused.value.problems[1].text == "is 1.5, not a whole number from 1 to 1e6"


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        *((Amount, value) for value in (0, 1e31, True, float("nan"), "1", 10**400)),
        *((Fraction, value) for value in (-0.1, 1.1, 40)),
        (Moment, "yesterday"),
        (Moment, "1999-12-31T23:59:59Z"),
        (Moment, "0001-01-01T00:00:00+23:59"),
        (Text, "a\0"),
    ],
)
def test_what_a_type_refuses(kind, value):
    with pytest.raises(ValueError, match="is"):
        checked(kind, value)


def test_two_fields_that_exclude_each_other():
    refuse_both(Example(name="a"), "name", "other")
    with pytest.raises(ScoreError, match="give name or other, not both"):
        refuse_both(Example(name="a", other="b"), "name", "other")


@pytest.mark.parametrize(
    ("written", "offered"),
    [("2026-05-02", "2026-05-02T00:00Z"), ("2026-05-02T08:00", "2026-05-02T08:00Z")],
)
def test_the_time_that_a_refusal_offers_is_accepted(written, offered):
    with pytest.raises(ValueError, match=f"write {offered}$"):
        checked(Moment, written)
    assert checked(Moment, offered).strftime("%Y-%m-%dT%H:%MZ") == offered
