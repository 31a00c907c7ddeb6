"""R in one unit: declared factors, what they may look like, and what is said about them."""

from functools import partial

import msgspec
import pytest

from gramwatt.sci.figures.errors import ScoreError
from gramwatt.sci.month.compare import compare
from gramwatt.sci.score.functional_unit import declared_factors
from tests.documents import journal_of
from tests.documents import scored as scored_by
from tests.journals import H100, Writer

PAGE = {"convert.page": "500 token; mean of our own corpus; 2026-05-01"}


def scored(tags, counts, units=("token",), **job):
    more = [partial(Writer.count, amount=amount, unit=unit) for unit, amount in counts]
    board = ("GPU-1", H100, [(0, 60, 42_000)])
    return scored_by(journal_of(board, more=more, units=units, tags=tags, **job))


def test_pages_count_as_tokens_by_the_declared_factor():
    doc = scored(PAGE, [("page", 3), ("token", 500), ("page", 1)])
    # 4 pages x 500 + 500 tokens.
    assert [(row.unit, row.count) for row in doc.sci] == [("token", 2500)]
    assert doc.sci[0].g_per_unit.value == pytest.approx(doc.total_g.value / 2500)
    assert doc.days[0].counts == {"token": 2500}
    assert msgspec.to_builtins(doc.method.conversions) == [
        {
            "unit": "page",
            "to": "token",
            "factor": 500.0,
            "source": "mean of our own corpus",
            "date": "2026-05-01",
            "counted": 4.0,
        }
    ]


def test_a_scale_is_a_conversion_too_and_takes_the_declared_units_place():
    tags = {"convert.token": "1e-6 million tokens; by definition; 2026"}
    doc = scored(tags, [("token", 48_000_000)])
    (row,) = doc.sci
    assert row.unit == "million tokens"
    assert row.count == pytest.approx(48)
    assert row.g_per_unit.unit == "gCO2e/million tokens"
    assert not any(notice.code == "unit-not-counted" for notice in doc.notices)


def test_a_factor_that_was_not_needed_is_not_disclosed():
    doc = scored(PAGE, [("token", 500)])
    assert doc.method.conversions == []
    assert doc.sci[0].count == 500


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("500 token", "needs a factor, a source and a date"),
        ("500 token; ; 2026", "needs a factor, a source and a date"),
        ("many token; x; 2026", "'many' is not a number above zero"),
        ("0 token; x; 2026", "'0' is not a number above zero"),
        ("-5 token; x; 2026", "not a number above zero"),
        ("nan token; x; 2026", "not a number above zero"),
        ("500 7up; x; 2026", "'7up' is not a unit name"),
        ("500 page; x; 2026", "converts a unit to itself"),
        ("500 token; x; last year", "'last year' is not a date"),
        ("500 token; x; 2026-13-01", "not a date"),
    ],
)
def test_a_factor_that_cannot_be_used_changes_nothing_and_is_said(text, said):
    doc = scored({"convert.page": text}, [("page", 3)], units=("page",))
    assert [(row.unit, row.count) for row in doc.sci] == [("page", 3)]
    (notice,) = [n for n in doc.notices if n.code == "argument-ignored"]
    assert said in notice.message


def test_factors_are_not_chained():
    tags = PAGE | {"convert.token": "0.75 word; x; 2026"}
    found, notices = declared_factors(tags)
    assert set(found) == {"token"}
    assert "'token' is converted itself" in notices[0].message


def test_scores_with_different_factors_are_not_comparable():
    other = PAGE | {"convert.page": "400 token; another corpus; 2026-05-01"}
    one, two = (scored(tags, [("page", 4)]) for tags in (PAGE, other))
    assert compare(one, scored(PAGE, [("page", 8)])).unit == "token"
    with pytest.raises(ScoreError, match="the factors that convert units"):
        compare(one, two)


@pytest.mark.parametrize(
    ("kind", "unit", "persona", "name"),
    [
        ("training", "token", "provider", "training token"),
        ("training", "tokens", "provider", "training token"),
        ("training", "million tokens", "provider", "training token"),
        ("training", "parameter", "provider", None),
        ("fine-tuning", "FLOP", "provider", "FLOP"),
        ("data-prep", "billion parameters", "provider", "billion parameters"),
        ("evaluation", "image", "provider", None),
        ("inference", "image", "consumer", "image"),
        ("inference", "pages", "consumer", "page"),
        ("inference", "workflow", "consumer", "workflow"),
        ("inference", "inference", "consumer", "inference"),
        ("inference", "character", "consumer", "character"),
        ("inference", "second", "consumer", "second"),
        ("inference", "FLOP", "consumer", None),
        ("other", "token", None, None),
    ],
)
def test_persona_and_named_unit_of_sci_for_ai(kind, unit, persona, name):
    found = scored({}, [(unit, 10)], units=(unit,), kind=kind).method.sci_for_ai
    assert (found.persona, found.named_units) == (persona, {unit: name})
    assert (found.unit_rationale is None) == (name is None)
    core = found.statement.startswith("A score of core SCI")
    assert core == (name is None)
    assert "neither is spread over the other" in found.statement


def test_what_is_declared_about_the_unit_is_kept():
    tags = {"unit_rationale": "billed so", "unit_values": "Effective", "tokeniser": "cl100k"}
    found = scored(tags, [("page", 1)], units=("page",)).method.sci_for_ai
    assert (found.unit_rationale, found.unit_values) == ("billed so", "effective")
    assert found.tokeniser == "cl100k"
    unsaid = scored({"unit_values": "net"}, [("page", 1)]).method.sci_for_ai
    assert (unsaid.unit_values, unsaid.tokeniser) == (None, None)
