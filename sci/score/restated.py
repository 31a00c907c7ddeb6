"""A score with what else was declared of its job: its name, tags and exclusion, and no figure."""

from __future__ import annotations

from collections.abc import Sequence

from gramwatt.sci.base.document import JobDoc
from gramwatt.sci.journal.corrections import EXCLUDED, TAG, Correction, exclusion
from gramwatt.sci.journal.records import JobRecord
from gramwatt.sci.score.functional_unit import PREFIX
from gramwatt.sci.score.supplementary import CONTRACT_FIGURE, CONTRACT_SOURCE

_SCORED_TAGS = frozenset(
    {
        CONTRACT_FIGURE,
        CONTRACT_SOURCE,
        "inception",
        "retirement",
        "tokeniser",
        "unit_rationale",
        "unit_values",
    }
)
"""Tags of which a score says more than that they are there; and those that begin with PREFIX."""


def changes_no_figure(field: str) -> bool:
    """Whether a correction of the field leaves every figure of a score, and how it was made."""
    tag = field.removeprefix(TAG)
    if tag != field:
        return not (tag in _SCORED_TAGS or tag.startswith(PREFIX))
    return field in ("name", EXCLUDED)


def restated(
    document: JobDoc, head: JobRecord, corrections: Sequence[Correction], revision: int
) -> JobDoc:
    """The score as a further revision, with name, tags and exclusion as declared now."""
    return {
        **document,
        "name": head.name or head.job_id,
        "tags": dict(head.tags),
        "excluded": exclusion(corrections),
        "corrections": [correction.to_doc() for correction in corrections],
        "revision": revision,
    }
