"""The settings that hold, each with where it comes from, without secrets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa

from gramwatt.collectors.settings.config import plain_address, resolve
from gramwatt.sci.figures.formatting import all_digits
from gramwatt.service.config import MIB, ConfigError, from_environment, settings_of
from gramwatt.service.container import Service

NOT_SET, HIDDEN = "not set", "set, hidden"
NOT_USED = "set, not used"
"""For a variable that has no effect without another, such as a key without its address."""


@dataclass(frozen=True, slots=True)
class EffectiveSetting:
    """A setting: its variable, what it is, its value as text, and where that comes from."""

    name: str
    what: str
    value: str
    origin: str


def effective_settings(
    service: Service, environ: Mapping[str, str] | None = None
) -> list[EffectiveSetting]:
    """Return every setting of the service; of a secret only whether it is set."""
    env = os.environ if environ is None else environ
    files = resolve(environ=env).origins
    try:
        usual = dict(settings_of(from_environment(env)))
    except ConfigError:  # the environment has changed since the start
        usual = {}
    found = []
    for setting, value in settings_of(service.config):
        name = setting.variable
        text = HIDDEN if setting.secret and value else value_text(name, value)
        if env.get(name):
            origin = "environment"
            text = NOT_USED if text == NOT_SET else text
        elif setting not in usual or usual[setting] != value:
            origin = "argument"
        else:
            origin = files.get(name.removeprefix("GRAMWATT_").lower(), "default")
            text = NOT_SET if setting.secret else text  # another variable set it, as KEY_FILE does
        found.append(EffectiveSetting(name, setting.text, text, origin))
    return found


def value_text(variable: str, value: Any) -> str:
    """Return the value as its variable is written, without credentials in an address."""
    if variable == "GRAMWATT_RETENTION_DAYS":
        texts = {name: all_digits(days / timedelta(days=1)) for name, days in value.items()}
        words = (f"{quote(name)}={text}" if name else text for name, text in texts.items())
        return " ".join(words) or NOT_SET
    if not value:  # no setting may be 0
        return NOT_SET
    if variable == "GRAMWATT_DATABASE_URL":
        return sa.make_url(value).set(query={}).render_as_string(hide_password=True)
    if variable == "GRAMWATT_MAX_BODY_MIB":
        return f"{value / MIB:g}"
    if isinstance(value, timedelta):
        units = {"DAYS": timedelta(days=1), "HOURS": timedelta(hours=1)}
        unit = units.get(variable.rpartition("_")[2], timedelta(seconds=1))
        return f"{value / unit:g}"
    if variable == "GRAMWATT_MARKET_FACTORS":
        rows = (f"{zone}={all_digits(of.g_per_kwh)} {of.source}" for zone, of in value.items())
        return "; ".join(rows)
    if isinstance(value, Mapping):
        return "; ".join(_zone_text(zone, names) for zone, names in value.items())
    if isinstance(value, frozenset):
        return " ".join(sorted(value))
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    if isinstance(value, float):
        return f"{value:g}"
    return plain_address(value) if "://" in str(value) else str(value)


def _zone_text(zone: str, names: str | tuple[str, ...]) -> str:
    text = names if isinstance(names, str) else ",".join(names) or "off"
    return f"{zone}={text}" if zone else text
