"""Settings and the places they name: the spool, the service, the server, the grid zone."""

from __future__ import annotations

from gramwatt.collectors.doctor.finding import Finding
from gramwatt.collectors.settings.catalogs import place_problems
from gramwatt.collectors.settings.config import Config, plain_address
from gramwatt.collectors.settings.installation import has_service, install_command, missing_packages
from gramwatt.collectors.settings.platform import switched_off

TIMEOUT_S = 3.0


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
    from gramwatt.collectors.spool.spool import (
        LEAST_FREE_B,
        folders,
        rejected_root,
        size_b,
        spool_root,
        why_unusable,
    )

    home, refused = config.home, rejected_root(config.home)
    used_mb, ended = size_b(home) / 1e6, [row for row in folders(home) if not row.is_live()]
    detail = f"{home}, {used_mb:.1f} of {config.spool_limit_mb:g} MB"
    detail += f", {len(ended)} closed or dead journals wait for `gramwatt sync`" if ended else ""
    if why := why_unusable(spool_root(home), LEAST_FREE_B):
        text = f"{detail}. {why}: jobs are journaled under the temporary directory, if it has room"
        fix = "make it writable, free space, or set GRAMWATT_HOME to a folder that outlives jobs"
        return Finding("spool", "limited", text, fix)
    if used_mb > config.spool_limit_mb:
        text = f"{detail}; over its limit, so intervals are 300 s long"
        return Finding("spool", "limited", text, "gramwatt sync")
    if any(row.server() or not has_service() for row in ended):
        return Finding("spool", "limited", detail, "gramwatt sync")
    if refused.exists():
        text = f"{detail}. Lines that were refused are in no figure; they are kept in {refused}"
        return Finding("spool", "limited", text, "look at them, then delete that folder")
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


def server(config: Config) -> Finding:
    """Check that the server that jobs are sent to takes journals with the key that is there."""
    if not config.server:
        here = "scored and kept on this machine" if has_service() else "spooled on this machine"
        return Finding("server", "absent", f"none is set: jobs are {here}")
    from gramwatt.collectors.spool.send import AWAY, NotTaken, try_server  # not on Windows

    try:
        try_server(config.server, config.key_for(config.server), TIMEOUT_S)
    except NotTaken as error:
        fix = "check GRAMWATT_SERVER and the network to it"
        if error.code != AWAY:
            fix = "check GRAMWATT_SERVER and GRAMWATT_API_KEY"
            fix += "; there: gramwatt admin key create NAME --scope ingest"
        text = f"{error}; journals stay spooled"
        return Finding("server", "missing" if error.code == AWAY else "limited", text, fix)
    return Finding("server", "ok", f"{plain_address(config.server)} takes journals")


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
