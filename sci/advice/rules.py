"""The 77 rules of thumb the advice started from, each with what became of it.

A rule is kept, kept under a condition, refused or shown as a policy; `rules.csv` says which, and
tests/sci/advice/test_rules.py asserts each in the sense of its verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from gramwatt.sci.advice.prediction.rows import table
from gramwatt.sci.advice.request import SuggestQuestion


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
    return {
        int(row.known("rule")): Rule(
            int(row.known("rule")),
            row.text("verdict"),
            row.text("seed"),
            row.text("statement"),
            row.text("held"),
        )
        for row in table("rules.csv")
    }


def policies(question: SuggestQuestion) -> list[str]:
    """Statements that no data can test, where they touch the question, with their source."""
    found = []
    if question.constraint == "edge":
        found += [5, 36]
    names = " ".join((question.hardware or "", *(question.candidates or ()))).lower()
    found += [15] if "trainium" in names else []
    found += [17] if any(name in names for name in ("cerebras", "sambanova")) else []
    found += [45] if question.batch_size and question.kind == "training" else []
    found += [59] if question.provider else []
    return [_shown(rules()[number]) for number in found]


def _shown(rule: Rule) -> str:
    return f"Policy, not tested: {rule.statement} ({rule.seed}, rule {rule.number}). {rule.held}."
