"""The 77 rules of thumb the advice started from, each with what became of it.

A rule is kept, kept under a condition, refused or shown as a policy; `rules.csv` says which, and
tests/sci/advice/test_rules.py asserts each in the sense of its verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from gramwatt.sci.advice.prediction.measurements import table
from gramwatt.sci.advice.request import SuggestRequest
from gramwatt.sci.base.notices import Notice


@dataclass(frozen=True, slots=True)
class Rule:
    """One statement, its verdict, and what holds instead or under which condition."""

    number: int
    verdict: str
    seed: str
    statement: str
    held: str


@cache
def rules() -> Mapping[int, Rule]:
    """Every rule by number."""
    found = (
        Rule(int(row.known("rule")), *map(row.text, ("verdict", "seed", "statement", "held")))
        for row in table("rules.csv")
    )
    return {rule.number: rule for rule in found}


def policies(request: SuggestRequest) -> list[Notice]:
    """Statements that no data can test, where they touch the request, with their source."""
    numbers = [5, 36] if request.constraint == "edge" else []
    names = " ".join((request.hardware or "", *(request.candidates or ()))).lower()
    numbers += [15] if "trainium" in names else []
    numbers += [17] if any(name in names for name in ("cerebras", "sambanova")) else []
    numbers += [45] if request.batch_size and request.kind == "training" else []
    numbers += [59] if request.provider else []
    return [Notice("advice-policy", _text(rules()[number])) for number in numbers]


def _text(rule: Rule) -> str:
    return f"Policy, not tested: {rule.statement} ({rule.seed}, rule {rule.number}). {rule.held}."
