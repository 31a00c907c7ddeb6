"""Rules of request fields: what they accept, what they refuse, and with which words."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from gramwatt.sci.base.errors import ScoreError
from gramwatt.sci.base.request_fields import (
    AMOUNT,
    SHARE,
    Choice,
    Counts,
    Flag,
    Moment,
    Names,
    Number,
    Text,
    parse,
    refuse_both,
    ruled,
)


@dataclass(frozen=True, kw_only=True)
class Example:
    name: str | None = ruled(Text())
    other: str | None = ruled(Text())
    count: float | None = ruled(Number(high=10, whole=True))
    host: bool = ruled(Flag(), default=True)
    units: dict[str, float] = ruled(Counts(), default_factory=dict)


def test_what_is_not_given_and_what_is_null_take_the_default():
    assert parse(Example, {}) == parse(Example, {"host": None, "units": None}) == Example()
    given = parse(Example, {"count": 3, "host": False, "units": {"token": 1}})
    assert (given.count, given.host, given.units) == (3.0, False, {"token": 1.0})
    assert isinstance(given.count, float)


@pytest.mark.parametrize(
    ("document", "code", "text"),
    [
        ({"colour": 1}, "unknown-field", "unknown field 'colour'; known: name, other, count"),
        ({"count": 11}, "bad-field", "field 'count': 11 is above 10"),
        ({"count": 1.5}, "bad-field", "field 'count': 1.5 is not a whole number"),
        ({"name": " "}, "bad-field", "field 'name': not a text of 1 to 200 characters"),
        ({"units": {"token": 0}}, "bad-field", "field 'units': 0 is not above 0"),
    ],
)
def test_a_wrong_document_says_which_field_and_why(document, code, text):
    with pytest.raises(ScoreError) as refused:
        parse(Example, document)
    assert refused.value.code == code
    assert refused.value.message.startswith(text)


def test_two_fields_that_exclude_each_other():
    refuse_both(Example(name="a"), "name", "other")
    with pytest.raises(ScoreError, match="give name or other, not both"):
        refuse_both(Example(name="a", other="b"), "name", "other")


@pytest.mark.parametrize(
    ("rule", "value", "text"),
    [
        (AMOUNT, 0, "0 is not above 0"),
        (AMOUNT, 1e31, r"1e\+31 is above 1e\+30"),
        (AMOUNT, True, "not a finite number"),
        (AMOUNT, float("nan"), "not a finite number"),
        (AMOUNT, "1", "not a finite number"),
        (SHARE, -0.1, "-0.1 is below 0"),
        (SHARE, 1.1, "1.1 is above 1: a share from 0 to 1, not per cent"),
        (Choice(("a", "b")), "c", "'c' is none of a, b"),
        (Flag(), 1, "not true or false"),
        (Counts(), [], "not an object"),
        (Names(most=2), "abc", "not a list of names"),
        (Names(most=2), ["a"] * 3, "more than 2 names"),
        (Names(most=2), [1], "not a text"),
    ],
)
def test_what_a_rule_refuses(rule, value, text):
    with pytest.raises(ValueError, match=text):
        rule.check(value)


def test_the_ends_of_a_closed_range_are_in_it():
    assert (SHARE.check(0), SHARE.check(1)) == (0.0, 1.0)
    assert Names(most=2).check(["a", "b"]) == ("a", "b")


@pytest.mark.parametrize(
    ("written", "offered"),
    [("2026-05-02", "2026-05-02T00:00Z"), ("2026-05-02T08:00", "2026-05-02T08:00Z")],
)
def test_the_time_that_a_refusal_offers_is_accepted(written, offered):
    with pytest.raises(ValueError, match=f"write {offered}$"):
        Moment().check(written)
    assert Moment().check(offered).strftime("%Y-%m-%dT%H:%MZ") == offered
