"""The words of reports and pages in plain language, and links to them at their first use."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from markupsafe import Markup, escape

TITLE = "Words used here"


class Term(NamedTuple):
    """A word: its fragment in an address, how it is written, and what it means.

    `pattern` is a regular expression of the texts that are linked to it.
    """

    key: str
    name: str
    pattern: str
    meaning: str


TERMS = (
    Term(
        "sci",
        "SCI",
        r"SCI",
        "Software Carbon Intensity, ISO/IEC 21031: the carbon of a piece of software per unit of "
        "its work, ((E × I) + M) per R. It is a rate, so less of it means a better way to do the "
        "same work.",
    ),
    Term(
        "co2e",
        "CO2e",
        r"CO2e",
        "Carbon dioxide equivalent: all greenhouse gases, each counted as the carbon dioxide that "
        "would warm the climate as much over 100 years.",
    ),
    Term(
        "energy",
        "E, energy",
        r"Energy",
        "The electricity that the job's devices and their host used, in kilowatt-hours.",
    ),
    Term(
        "intensity",
        "I, grid intensity",
        r"[Gg]rid intensity|[Ii]ntensity",
        "The carbon that one kilowatt-hour from the electricity grid emits where and when it is "
        "used. It changes by the hour with the power stations that run.",
    ),
    Term(
        "operational",
        "O, operational carbon",
        r"[Oo]perational(?: carbon)?|[Cc]arbon of electricity|Electricity",
        "What the electricity emitted: energy times PUE times grid intensity.",
    ),
    Term(
        "embodied",
        "M, embodied carbon",
        r"[Ee]mbodied(?: carbon)?|Making the hardware",
        "The job's part of what making, moving and disposing of its hardware emits: by its share "
        "of the hardware, and of the time that the hardware is expected to be used.",
    ),
    Term(
        "functional-unit",
        "R, functional unit",
        r"functional unit|[Uu]nits? of work|Work done|How much work",
        "What the work is counted in, such as a token, an image or a request. A score holds per "
        "one of them.",
    ),
    Term(
        "pue",
        "PUE",
        r"PUE",
        "Power usage effectiveness: the energy of the whole data centre over that of its "
        "computers. 1.2 means that cooling and power supply add a fifth.",
    ),
    Term(
        "location-based",
        "Location-based",
        r"[Ll]ocation-based",
        "Counted with the intensity of the grid that the electricity comes from. Scores here are.",
    ),
    Term(
        "market-based",
        "Market-based",
        r"[Mm]arket-based",
        "Counted by what contracts and certificates for electricity say. It is shown beside the "
        "score and never in it.",
    ),
    Term(
        "provisional",
        "Provisional",
        r"[Pp]rovisional",
        "May still change: the job runs, or the grid's intensity of its hours is not final.",
    ),
    Term(
        "range",
        "Range",
        r"[Rr]anges?",
        "From low to high: meant to hold the true value eight times in ten (80 %). Two figures "
        "whose difference has a range on both sides of zero do not differ reliably.",
    ),
    Term(
        "measured",
        "Measured, integrated, attributed",
        r"[Mm]easured|[Mm]etered|integrated|attributed",
        "Read from a meter: an energy counter (measured), power readings summed over time "
        "(integrated), or a meter's reading divided between jobs (attributed). Of grid intensity: "
        "published for the hour, or derived from what was generated in it.",
    ),
    Term(
        "derived",
        "Derived",
        r"[Dd]erived",
        "Computed from other figures that are not readings of energy, such as how busy a device "
        "of known power was.",
    ),
    Term(
        "estimated",
        "Estimated, modelled",
        r"[Ee]stimated|[Mm]odelled|by a model",
        "Not read but worked out by a model or from typical values. Marked ≈ in tables, striped "
        "in charts.",
    ),
    Term(
        "declared",
        "Declared",
        r"[Dd]eclared(?: afterwards)?",
        "Said by the person or the settings that run the job, and not checked.",
    ),
    Term(
        "grade",
        "Data quality",
        r"[Dd]ata quality|[Gg]rade",
        "A to D. A: 90 % of the energy measured, hourly intensity for 90 % of it, embodied carbon "
        "from published studies. B: 70 % measured and at least annual intensity of the zone. C: "
        "every term known, at least half of the energy read from a meter. D: mostly modelled, or a "
        "term not known.",
    ),
    Term(
        "boundary",
        "Boundary",
        r"[Bb]oundary",
        "What is counted in the score, and what is left out.",
    ),
)
"""Every word, in the order of the formula; then how a figure is known."""
_ALL = "|".join(f"(?P<t{n}>{term.pattern})" for n, term in enumerate(TERMS))


def used(texts: str, names: Iterable[str] = ()) -> list[Term]:
    """Return the words that texts use outside users' names, in the order of `TERMS`."""
    keys = {match.lastgroup and _key(match) for match in _pattern(names).finditer(texts)}
    return [term for term in TERMS if term.key in keys]


def linker(address: str, names: Iterable[str] = ()) -> Callable[[str], Markup]:
    """Return a function that escapes texts one after another, and links each word once.

    `address` comes before the word's key in the link. What users named, such as a unit "SCI run",
    is not linked.
    """
    pattern, seen = _pattern(names), set[str]()

    def linked(text: str) -> Markup:
        parts, end = [], 0
        for match in pattern.finditer(text):
            key = match.lastgroup and _key(match)
            if not key or key in seen:
                continue
            seen.add(key)
            parts.append(escape(text[end : match.start()]))
            link = Markup('<a class="term" href="{}{}">{}</a>')
            parts.append(link.format(address, key, match.group()))
            end = match.end()
        return Markup("").join((*parts, escape(text[end:])))

    return linked


def _pattern(names: Iterable[str]) -> re.Pattern[str]:
    """Matches names, in no group, and words, each in a group of its own."""
    longest = sorted(filter(str.strip, names), key=len, reverse=True)
    either = "|".join([*map(re.escape, longest), _ALL])
    return re.compile(rf"(?<![\w-])(?:{either})(?![\w-])")


def _key(match: re.Match[str]) -> str:
    assert match.lastgroup is not None  # each alternative is a group
    return TERMS[int(match.lastgroup[1:])].key
