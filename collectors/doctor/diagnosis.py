"""`gramwatt doctor`: what can be measured here, how well, what is missing, and the exact fix."""

from __future__ import annotations

from collections.abc import Callable

from gramwatt.collectors.common.config import Config
from gramwatt.collectors.common.platform import refused
from gramwatt.collectors.doctor import gpus, host, places, vendors
from gramwatt.collectors.doctor.finding import Finding, Surroundings


def examine(config: Config, around: Surroundings | None = None) -> list[Finding]:
    """Look at every source and place that measuring needs; never raises, changes nothing.

    Where nothing can be measured at all, only what holds for the rest of the product follows.
    """
    look = around or Surroundings()
    looks: list[tuple[str, Callable[[], list[Finding]]]] = [
        ("system", lambda: [host.system(look)]),
        ("measuring", lambda: [places.switch(config)]),
        ("settings", lambda: places.settings(config)),
    ]
    if not refused(look.place.platform):
        looks += [
            ("NVML", lambda: gpus.nvidia(look)),
            ("other vendors", lambda: vendors.others(look)),
            ("RAPL", lambda: [host.rapl(look)]),
            ("codecarbon", lambda: [host.codecarbon(look)]),
            ("host share", lambda: [host.cgroup(look)]),
            ("clock", lambda: [host.clocks(look)]),
            ("spool", lambda: [places.spool(config, look)]),
        ]
    looks += [
        ("service extra", lambda: [places.service(config)]),
        ("server", lambda: [places.server(config)]),
        ("grid zone", lambda: [places.zone(config)]),
    ]
    return [finding for what, action in looks for finding in _guarded(what, action)]


def lines(findings: list[Finding], width: int) -> list[str]:
    """The findings for a terminal of `width` columns: state, what, detail, range, and the fix."""
    from textwrap import wrap

    column = max(len(finding.what) for finding in findings)
    lead = column + 2 + len("missing") + 2
    room = max(width - lead, 30)
    shown = []
    for finding in findings:
        detail = finding.detail
        if finding.kind and finding.spread is not None:
            detail += f" [{finding.kind}, +-{100 * finding.spread:.0f} %]"
        first, *rest = wrap(detail, room, break_long_words=False, break_on_hyphens=False) or [""]
        shown.append(f"{finding.what:<{column}}  {finding.state:<7}  {first}")
        shown += [" " * lead + text for text in rest]
        if finding.fix:  # its lines stay unbroken, to be copied
            first, *rest = finding.fix.splitlines()
            shown += [" " * lead + f"fix: {first}"] + [" " * (lead + 5) + text for text in rest]
    return shown


def _guarded(what: str, look: Callable[[], list[Finding]]) -> list[Finding]:
    try:
        return look()
    except Exception as error:
        return [Finding(what, "missing", f"this check itself failed: {error!r}")]
