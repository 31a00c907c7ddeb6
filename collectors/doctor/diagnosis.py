"""All checks of `gramwatt doctor` in their order, and their findings as lines of text."""

from __future__ import annotations

from collections.abc import Callable

from gramwatt.collectors.common.config import Config
from gramwatt.collectors.common.platform import refused
from gramwatt.collectors.doctor import accelerators, host, places
from gramwatt.collectors.doctor.finding import Finding, Target


def examine(config: Config, target: Target | None = None) -> list[Finding]:
    """Check every source and place that measuring needs; never raises, changes nothing.

    A system on which nothing can be measured gets the checks of the other places only.
    """
    target = target or Target()
    checks: list[tuple[str, Callable[[], list[Finding]]]] = [
        ("system", lambda: [host.system(target)]),
        ("measuring", lambda: [places.switch(config)]),
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
            ("clock", lambda: [host.clocks(target)]),
            ("spool", lambda: [places.spool(config, target)]),
        ]
    checks += [
        ("service extra", lambda: [places.service(config)]),
        ("server", lambda: [places.server(config)]),
        ("grid zone", lambda: [places.zone(config)]),
    ]
    return [finding for what, check in checks for finding in _guarded(what, check)]


def lines(findings: list[Finding], width: int) -> list[str]:
    """Return the findings for a terminal of `width` columns: what, state, detail, range, fix."""
    from textwrap import wrap

    column = max(len(finding.what) for finding in findings)
    indent = " " * (column + 2 + len("missing") + 2)
    room = max(width - len(indent), 30)
    found = []
    for finding in findings:
        detail = finding.detail
        if found_range := finding.range:
            low, high, _ = found_range
            even = f"+-{100 * (high - 1):.0f} %"
            text = even if round(high - 1, 9) == round(1 - low, 9) else f"x {low:g} to {high:g}"
            detail += f" [{finding.kind}, {text}]"
        first, *rest = wrap(detail, room, break_long_words=False, break_on_hyphens=False) or [""]
        found.append(f"{finding.what:<{column}}  {finding.state:<7}  {first}")
        found += [indent + text for text in rest]
        if finding.fix:  # its lines stay unbroken, to be copied
            first, *rest = finding.fix.splitlines()
            found += [f"{indent}fix: {first}", *(f"{indent}     {text}" for text in rest)]
    return found


def _guarded(what: str, check: Callable[[], list[Finding]]) -> list[Finding]:
    try:
        return check()
    except Exception as error:
        return [Finding(what, "missing", f"this check itself failed: {error!r}")]
