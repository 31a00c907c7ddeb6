"""The settings that hold, each with where it comes from, without secrets."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from gramwatt.collectors.common.config import resolve
from gramwatt.service.config import MIB, ConfigError, from_environment
from gramwatt.service.container import Service

NOT_SET = "not set"
_NAMES = {
    "max_body_b": "max_body_mib",
    "silent_after": "silent_after_s",
    "provisional_every": "provisional_every_s",
    "oidc": "oidc_issuer",
    "oidc.secret_file": "oidc_client_secret_file",
}
"""Where a variable is named unlike its field."""
_WHAT = {
    "database_url": "the store",
    "home": "store and spool of this machine",
    "max_body_b": "largest request body [MiB]",
    "silent_after": "time without a line after which a job is lost [s]",
    "provisional_every": "age from which a running job is scored again [s]",
    "hosts": "further host names that requests may name",
    "trusted_proxies": "proxies whose X-Forwarded headers hold",
    "requests_per_s": "sustained rate of requests of a key [1/s]",
    "lifetime_years": "declared lifetime of the hardware, EL [years]",
    "overlay": "file of own catalog entries",
    "backup_dir": "folder of the daily backups",
    "backup_keep": "how many backups are kept",
    "log": "form of the log",
    "alerts.webhook_secret": "signs the messages of webhooks",
    "alerts.webhook_hosts": "hosts that webhooks may have although not public",
    "alerts.smtp_url": "mail server of alerts",
    "alerts.mail_from": "sender of alerts",
    "oidc": "provider that readers sign in with",
    "oidc.issuer": "provider that readers sign in with",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting: its variable, what it is, its value as text, and where that comes from."""

    name: str
    what: str
    value: str
    origin: str


def effective_settings(service: Service, environ: Mapping[str, str] | None = None) -> list[Setting]:
    """Every setting of the service; of a secret only whether it is set."""
    env = os.environ if environ is None else environ
    files = resolve(environ=env).origins
    try:
        usual = dict(_leaves(from_environment(env)))
    except ConfigError:  # the environment has changed since the start
        usual = {}
    found = []
    for path, (value, secret) in _leaves(service.config):
        key = _NAMES.get(path, path.removeprefix("alerts.").replace(".", "_"))
        name = f"GRAMWATT_{key.upper()}"
        if env.get(name):
            origin = "environment"
        elif path not in usual or usual[path][0] != value:
            origin = "argument"
        else:
            origin = files.get(key, "default")
        found.append(Setting(name, _WHAT.get(path, ""), _text(path, value, secret=secret), origin))
    return found


def _leaves(config: Any, before: str = "") -> Iterator[tuple[str, tuple[Any, bool]]]:
    """Every field that is no function, by its path, with its value and whether it is secret."""
    for field in fields(config):
        value = getattr(config, field.name)
        if is_dataclass(value):
            yield from _leaves(value, f"{before}{field.name}.")
        elif not callable(value):
            yield f"{before}{field.name}", (value, not field.repr)


def _text(path: str, value: Any, *, secret: bool) -> str:
    if value in (None, "", ()):
        return NOT_SET
    if secret:
        return "set, hidden"
    if path == "database_url":
        return sa.make_url(value).set(query={}).render_as_string(hide_password=True)
    if path == "max_body_b":
        return f"{value / MIB:g}"
    if isinstance(value, timedelta):
        return f"{value.total_seconds():g}"
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return str(value)
