"""All checks of `gramwatt doctor` in their order, and their findings as lines of text."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gramwatt.collectors.doctor import accelerators, host, places
from gramwatt.collectors.doctor.finding import Finding, Target
from gramwatt.collectors.settings.config import Config
from gramwatt.collectors.settings.platform import refused
from gramwatt.sci.figures.quantity import METERED

WELL = {"ok": "Well", "absent": "Not here"}
"""States that need nobody, and what they are called."""


def examine(config: Config, target: Target | None = None) -> list[Finding]:
    """Check every source and place that measuring needs; never raises, changes nothing.

    A system on which nothing can be measured gets the checks of the other places only.
    """
    target = target or Target()
    checks: list[tuple[str, Callable[[], list[Finding]]]] = [
        ("system", lambda: [host.system(target)]),
        ("measuring", lambda: [places.switch()]),
        ("settings", lambda: places.settings(config)),
    ]
    if not refused(target.place.platform):
        checks += [
            ("NVML", lambda: accelerators.nvidia(target)),
            ("other vendors", lambda: accelerators.others(target)),
            ("RAPL", lambda: [host.rapl(target)]),
            ("codecarbon", lambda: [host.codecarbon(target)]),
            ("HF Trainer", host.trackers),
            ("host share", lambda: [host.cgroup(target)]),
            ("locks", lambda: [host.locks(config.home)]),
            ("spool", lambda: [places.spool(config)]),
        ]
    checks += [
        ("service extra", lambda: [places.service(config)]),
        ("server", lambda: [places.server(config)]),
        ("grid zone", lambda: [places.zone(config)]),
    ]
    return [finding for what, check in checks for finding in _guarded(what, check)]


class Outlook(NamedTuple):
    """How good the figures of the next job here will be, and what would make them better.

    `grade` is None where it will not be measured.
    """

    grade: str | None
    verdict: str
    better: str


def outlook(findings: list[Finding]) -> Outlook:
    """Return the grade that the next job here will likely have, and what would raise it.

    The grade's rules are those of docs/methodology.md, "Data quality". Of a job on accelerators
    these draw about 1 / 1.45 of the energy (docs/methodology.md, "Estimates"), so that a meter of
    theirs alone reads most of it, and less than 70 %.
    """
    by_what = {finding.what: finding for finding in findings}
    if "measuring" in by_what and by_what["measuring"].state == "off":
        return Outlook(None, "The next job will not be measured", "unset GRAMWATT_OFF")
    kinds = {what: finding.kind for what, finding in by_what.items() if finding.kind in METERED}
    host = {kinds.pop(what, None) for what in ("RAPL", "codecarbon")}
    kinds.pop("host share", None)
    is_shared = "attributed" in kinds.values()
    boards = "measured" in kinds.values() and not is_shared
    located = "grid zone" in by_what and by_what["grid zone"].state == "ok"
    zone = "" if located else ", and to set the grid zone"
    if not kinds and host == {None}:
        verdict = "Estimates only here: no meter can be read, all energy is modelled"
        better = (
            "a meter of half the energy (readable RAPL counters, which need bare metal, or an "
            "accelerator)"
        )
        return Outlook("D", verdict, f"grade C needs {better}{zone}")
    if "measured" not in host or (kinds and not boards):
        better = "70 % of the energy measured by counters, the processor's too (RAPL)"
        if is_shared:
            better = "whole boards, as a slice's energy is attributed, and readable RAPL counters"
        return Outlook(
            "C", "About half of the energy is measured here", f"grade B needs {better}{zone}"
        )
    if not located:
        verdict = "Most energy is measured here, but the grid zone is not set"
        return Outlook("C", verdict, "grade B needs to set the grid zone")
    better = (
        "hourly intensity of the zone (`gramwatt import intensity`, or a provider) and embodied "
        "carbon from a study of the part"
    )
    return Outlook("B", "Most energy is measured here", f"grade A needs {better}")


def answer(findings: list[Finding], width: int, *, whole: bool) -> list[str]:
    """Return the verdict, what would raise it, and the findings that are not well, or the whole."""
    from textwrap import wrap

    expected = outlook(findings)
    grade = f" (grade {expected.grade}; A best, D worst)" if expected.grade else ""
    texts = wrap(f"{expected.verdict}{grade}.", width)
    texts += wrap(f"To do better: {expected.better}.", width)
    shown = [row for row in findings if whole or row.state not in WELL]
    if shown:
        texts += ["", *lines(shown, width)]
    if whole:
        return texts
    named = [
        f"{title}: {', '.join(row.what for row in findings if row.state == state)}"
        for state, title in WELL.items()
        if any(row.state == state for row in findings)
    ]
    return [*texts, "", *wrap(f"{'. '.join(named)}. All: gramwatt doctor -v", width)]


def lines(findings: list[Finding], width: int) -> list[str]:
    """Return the findings for a terminal of `width` columns: what, state, detail, range, fix."""
    from textwrap import wrap

    column = max(len(finding.what) for finding in findings)
    indent = " " * (column + 2 + len("missing") + 2)
    room = max(width - len(indent), 30)
    texts = []
    for finding in findings:
        detail = finding.detail
        if found_range := finding.range:
            low, high, _ = found_range
            even = f"+-{100 * (high - 1):.0f} %"
            text = even if round(high - 1, 9) == round(1 - low, 9) else f"x {low:g} to {high:g}"
            detail += f" [{finding.kind}, {text}]"
        first, *rest = wrap(detail, room, break_long_words=False, break_on_hyphens=False) or [""]
        texts.append(f"{finding.what:<{column}}  {finding.state:<7}  {first}")
        texts += [indent + text for text in rest]
        if finding.fix:  # its lines stay unbroken, to be copied
            first, *rest = finding.fix.splitlines()
            texts += [f"{indent}fix: {first}", *(f"{indent}     {text}" for text in rest)]
    return texts


def _guarded(what: str, check: Callable[[], list[Finding]]) -> list[Finding]:
    try:
        return check()
    except Exception as error:
        return [Finding(what, "missing", f"this check itself failed: {error!r}")]
