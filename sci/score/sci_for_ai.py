"""The persona of a score in SCI for AI: provider, who makes a model, or consumer, who uses it.

SCI for AI (January 2026) names a unit for each: FLOP, training token or billion parameters for the
provider; token, image, second, page, workflow, inference or character for the consumer. A job in
another unit has a score of core SCI all the same. Training is never spread over inference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gramwatt.sci.figures.document import AiDoc

PROVIDER, CONSUMER = "provider", "consumer"
PERSONAS: Mapping[str, str] = {
    "training": PROVIDER,
    "fine-tuning": PROVIDER,
    "evaluation": PROVIDER,
    "data-prep": PROVIDER,
    "inference": CONSUMER,
}
"""The persona of each kind of job; `other` has none."""
BILLION_PARAMETERS = "billion parameters"
NAMED: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    PROVIDER: {
        "FLOP": ("flop", "flops"),
        "training token": ("token", "training token"),
        BILLION_PARAMETERS: (BILLION_PARAMETERS, "billion parameter"),
    },
    CONSUMER: {
        name: (name,)
        for name in ("token", "image", "second", "page", "workflow", "inference", "character")
    },
}
"""Units named for each persona, with the names under which jobs may count them."""
SCALES = ("thousand ", "million ", "billion ", "trillion ")
"""Words before a unit that change how many, not what."""
VALUES = ("gross", "effective")
APART = "Training and use of a model are scored apart; neither is spread over the other."


def persona(kind: str) -> str | None:
    """Return the persona of a kind of job: `provider`, `consumer`, or None."""
    return PERSONAS.get(kind)


def named_unit(unit: str, kind: str) -> str | None:
    """Return the name that SCI for AI has for `unit` of a kind of job; None without one."""
    lowered = unit.casefold()
    unscaled = lowered.partition(" ")[2] if lowered.startswith(SCALES) else lowered
    written = {text for whole in (lowered, unscaled) for text in (whole, whole.removesuffix("s"))}
    for name, spellings in NAMED.get(persona(kind) or "", {}).items():
        if written & set(spellings):
            return name
    return None


def rationale(unit: str, kind: str, tags: Mapping[str, str]) -> str | None:
    """Return why this unit: what the tag `unit_rationale` says, else that SCI for AI names it."""
    if tags.get("unit_rationale"):
        return tags["unit_rationale"]
    if named_unit(unit, kind) is None:
        return None
    who = "use" if persona(kind) == CONSUMER else "make"
    return f"SCI for AI names this unit for those who {who} a model; it grows with the work done."


def for_ai(kind: str, units: Iterable[str], tags: Mapping[str, str]) -> AiDoc:
    """Return what SCI for AI requires: persona, named units, rationale, gross or effective."""
    counted = list(units)
    values = tags.get("unit_values", "").strip().lower()
    return AiDoc(
        persona=persona(kind),
        named_units={unit: named_unit(unit, kind) for unit in counted},
        unit_rationale=next(filter(None, (rationale(u, kind, tags) for u in counted)), None),
        unit_values=values if values in VALUES else None,
        tokeniser=tags.get("tokeniser") or None,
        statement=_statement(kind, counted),
    )


def _statement(kind: str, units: Iterable[str]) -> str:
    who = persona(kind)
    if who is None:
        return f"A score of core SCI: SCI for AI has no persona for a job of kind {kind}. {APART}"
    names = list(dict.fromkeys(filter(None, (named_unit(unit, kind) for unit in units))))
    if not names:
        return f"A score of core SCI: SCI for AI names none of its units for the {who}. {APART}"
    return f"A {who} score of SCI for AI in {', '.join(names)}. {APART}"
