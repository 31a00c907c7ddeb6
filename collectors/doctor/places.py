"""Settings and the places they name: the spool, the service, the server, the grid zone."""

from __future__ import annotations

import os
from collections.abc import Callable

from gramwatt.collectors.doctor.finding import Finding
from gramwatt.collectors.settings.catalogs import place_problems
from gramwatt.collectors.settings.config import Config, plain_address
from gramwatt.collectors.settings.http import Unanswered, exchange, new_session
from gramwatt.collectors.settings.installation import has_service, install_command, missing_packages
from gramwatt.collectors.settings.platform import switched_off

LEAST_FREE_MB = 1.0
"""Room that a home must have for a job to begin there [MB], as for the meter."""
TIMEOUT_S = 3.0
Ask = Callable[[str, float], int]
"""Requests a URL with a time limit [s]; returns the HTTP status, raises Unanswered without one."""


def switch() -> Finding:
    """Check that measuring is switched on."""
    if switched_off():
        return Finding("measuring", "off", "switched off by GRAMWATT_OFF", "unset GRAMWATT_OFF")
    return Finding("measuring", "ok", "switched on")


def settings(config: Config) -> list[Finding]:
    """Return every setting that is wrong and therefore ignored."""
    texts = [problem.text for problem in config.problems]
    texts += place_problems(config).values()
    if not texts:
        return [Finding("settings", "ok", "every setting is valid")]
    fix = "`gramwatt doctor --settings` shows where each value comes from"
    return [Finding("settings", "limited", text, fix) for text in texts]


def spool(config: Config) -> Finding:
    """Check where journals are kept: that it can be written, and how full it is."""
    from gramwatt.collectors.spool.spool import folders, free_b, size_b

    home = config.home
    place = next(path for path in (home, *home.parents) if path.exists())
    if not os.access(place, os.W_OK | os.X_OK):
        text = f"{home} cannot be written; a folder under the temporary directory is used"
        return Finding("spool", "limited", text, "set GRAMWATT_HOME to a folder that outlives jobs")
    used_mb, journals = size_b(home) / 1e6, folders(home)
    detail = f"{home}, {used_mb:.1f} of {config.spool_limit_mb:g} MB"
    waiting = sum(1 for folder in journals if not folder.is_live())
    detail += f", {waiting} closed or dead journals wait for `gramwatt sync`" if waiting else ""
    free_mb = free_b(place) / 1e6
    if free_mb < LEAST_FREE_MB:
        text = f"{detail}, and {free_mb:.0f} MB free on its disk: "
        text += "jobs are journaled under the temporary directory, if it has room"
        return Finding("spool", "limited", text, "free space there, or set GRAMWATT_HOME")
    if used_mb > config.spool_limit_mb:
        text = f"{detail}; over its limit, so intervals are 300 s long"
        return Finding("spool", "limited", text, "gramwatt sync")
    return Finding("spool", "ok", detail)


def service(config: Config) -> Finding:
    """Return where jobs are scored: here, or on a server."""
    missing = missing_packages("service")
    if has_service() and not missing:
        return Finding("service extra", "ok", "installed: jobs can be scored here")
    if config.server:
        return Finding("service extra", "absent", "not installed: jobs are scored by the server")
    fix = f"{install_command('service')}\nor set GRAMWATT_SERVER"
    if has_service():
        text = f"installed without {', '.join(missing)}: what needs that fails here"
        return Finding("service extra", "limited", text, fix)
    text = "not installed: jobs are spooled but not scored here"
    return Finding("service extra", "missing", text, fix)


def server(config: Config, ask: Ask | None = None) -> Finding:
    """Check that the server that jobs are sent to answers, and a key is there to show it."""
    if not config.server:
        here = "scored and kept on this machine" if has_service() else "spooled on this machine"
        return Finding("server", "absent", f"none is set: jobs are {here}")
    shown = plain_address(config.server)
    try:
        status = (ask or _status)(f"{config.server.rstrip('/')}/healthz", TIMEOUT_S)
    except Unanswered as error:
        text = f"{shown} {error}; journals stay spooled"
        return Finding("server", "missing", text, "check GRAMWATT_SERVER and the network to it")
    if status == 200 and not config.key_for(config.server):
        text = f"{shown} answers, but no key is set: it would refuse journals"
        fix = "set GRAMWATT_API_KEY; there: gramwatt admin key create NAME --scope ingest"
        return Finding("server", "limited", text, fix)
    if status == 200:
        return Finding("server", "ok", f"{shown} answers")
    text = f"{shown}/healthz answers {status}; journals stay spooled until it accepts them"
    return Finding("server", "limited", text, "look at that server's log")


def zone(config: Config) -> Finding:
    """Check that the grid zone that the job's intensity comes from is known."""
    place = config.zone or config.region
    if place and not place_problems(config):
        return Finding("grid zone", "ok", str(place))
    text = f"{place} is not known" if place else "not set"
    return Finding(
        "grid zone",
        "missing",
        f"{text}: the world average is used and scores are not-sci",
        "export GRAMWATT_ZONE=FR, or GRAMWATT_REGION=aws:eu-west-1",
    )


def _status(url: str, timeout_s: float) -> int:
    with new_session(repeats=False) as session:
        return exchange(session, "GET", url, timeout_s).status
