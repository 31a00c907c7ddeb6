"""Settings of the service: defaults, then the environment, then arguments."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from gramwatt.collectors.common.catalogs import overlay_file
from gramwatt.collectors.common.config import resolve
from gramwatt.collectors.common.files import why
from gramwatt.sci.analysis.documents import StatementDoc

Form = Literal["text", "json"]
"""How the service logs: warnings for people, or every request as a JSON line."""

MIB = 2**20
MOST_DAYS = 36_500
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")
KEYED, KEYLESS = ("electricity-maps", "entsoe", "eia", "watttime"), ("uk", "energinet")
SDK = "carbon-aware-sdk"
EACH_PROJECT = "*"
"""In GRAMWATT_REPORT_PROJECTS: every project."""
PROVIDERS = (*KEYED, *KEYLESS, SDK)
"""Providers of grid intensity, in the order of the usual chain."""


class ConfigError(ValueError):
    """A setting that cannot be used; the message names the variable and what it may be."""


def utc_now() -> datetime:
    """The wall clock; everything else is given its clock, so that tests can set it."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSettings:
    """How alerts are sent: docs/budgets.md describes the variables.

    `webhook_hosts` may be sent to although they are not public, and without TLS.
    """

    webhook_secret: str = field(default="", repr=False)
    webhook_hosts: tuple[str, ...] = ()
    smtp_url: str = field(default="", repr=False)
    mail_from: str = "gramwatt@localhost"


@dataclass(frozen=True, slots=True)
class Account:
    """Where a provider of grid intensity is asked, and with which key; empty for the usual."""

    url: str = ""
    key: str = field(default="", repr=False)
    user: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntensitySettings:
    """Who is asked for grid intensity: docs/intensity.md describes the variables.

    `chains` has the providers by zone, best first, and under "" those of every other zone.
    `zones` are kept up to date without a job in them. `names` are the providers' own names of
    zones, by provider. `sdk_kind` are signal and basis of what the Carbon Aware SDK answers.
    """

    chains: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    zones: tuple[str, ...] = ()
    accounts: Mapping[str, Account] = field(default_factory=dict)
    names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    sdk_kind: tuple[str, str] | None = None

    def chain(self, zone: str) -> tuple[str, ...]:
        """The names of a zone's providers, best first."""
        found = self.chains.get(zone)
        return self.chains.get("", ()) if found is None else found


@dataclass(frozen=True, slots=True)
class S3Access:
    """An address `https://host/bucket/prefix`, and the key that may write there."""

    url: str
    key_id: str
    secret: str = field(repr=False)
    region: str = "us-east-1"
    token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSettings:
    """Who answers for monthly reports, and where they go: docs/reports.md describes the variables.

    `folder`, `mail_to` and `s3` are where finished reports are delivered to. `projects` have
    reports of their own beside the one of all; EACH_PROJECT stands for every project.
    """

    organisation: str | None = None
    accountable: str | None = None
    contact: str | None = None
    folder: Path | None = None
    mail_to: tuple[str, ...] = ()
    s3: S3Access | None = None
    projects: frozenset[str] = frozenset()

    def statement(self) -> StatementDoc:
        """Who answers for the report."""
        return {
            "organisation": self.organisation,
            "accountable": self.accountable,
            "contact": self.contact,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcConfig:
    """The OpenID Connect provider of the pages, and which of its groups may do what."""

    issuer: str
    client_id: str
    secret_file: Path | None = None
    groups_claim: str = "groups"
    admin_groups: tuple[str, ...] = ()
    read_groups: tuple[str, ...] = ()

    def client_secret(self) -> str | None:
        """The secret in its file; None for a public client. Raises OSError."""
        return self.secret_file.read_text("utf-8").strip() if self.secret_file else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceConfig:
    """The settings of the service; docs/deploy.md lists them.

    `home` holds the spool of this machine. `silent_after` is how long a job may send no line
    before it counts as lost; `provisional_every` the age from which the score of a running job is
    computed again when asked for. `trusted_proxies` are those whose X-Forwarded headers hold,
    `requests_per_s` how many requests of a key a process answers for long [1/s].
    Badges of the projects in `public_badges` are shown to anybody.
    `lifetime_years` is the declared life EL of the hardware [years], None for the catalog's;
    `overlay` the file of the user's own catalog entries.
    `zone` is the organisation's time zone, for edges of days and months.
    `keep_intervals` is how long after its end a job keeps its intervals, None for good;
    `keep_audit` how long an entry of the audit log is kept.
    `backup_dir` is where the daily backups go, of which the newest `backup_keep` stay; None for no
    backups.
    """

    database_url: str
    home: Path
    max_body_b: int = 16 * MIB
    silent_after: timedelta = timedelta(minutes=15)
    provisional_every: timedelta = timedelta(seconds=30)
    hosts: tuple[str, ...] = ()
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    requests_per_s: float = 200.0
    public_badges: frozenset[str] = frozenset()
    oidc: OidcConfig | None = None
    lifetime_years: float | None = None
    overlay: Path | None = None
    keep_intervals: timedelta | None = None
    keep_audit: timedelta | None = None
    zone: tzinfo = UTC
    backup_dir: Path | None = None
    backup_keep: int = 7
    log: Form = "text"
    alerts: AlertSettings = AlertSettings()
    intensity: IntensitySettings = IntensitySettings()
    reports: ReportSettings = ReportSettings()
    clock: Callable[[], datetime] = field(default=utc_now, repr=False)

    @property
    def trusted_hosts(self) -> frozenset[str]:
        """Host names a request may ask for; others are refused (DNS rebinding)."""
        return frozenset((*LOOPBACK_HOSTS, *self.hosts))


def sqlite_url(path: Path) -> str:
    """The SQLAlchemy address of an SQLite file."""
    return f"sqlite:///{path}"


def from_environment(
    environ: Mapping[str, str] | None = None, *, home: Path | None = None
) -> ServiceConfig:
    """Settings from `GRAMWATT_...` variables; raises ConfigError for one that cannot be used."""
    env = os.environ if environ is None else environ
    settings = resolve(environ=env)
    base = home or settings.home
    return ServiceConfig(
        database_url=env.get("GRAMWATT_DATABASE_URL") or sqlite_url(base / "gramwatt.db"),
        home=base,
        max_body_b=round(_number(env, "GRAMWATT_MAX_BODY_MIB", 16.0) * MIB),
        silent_after=timedelta(seconds=_number(env, "GRAMWATT_SILENT_AFTER_S", 900.0)),
        provisional_every=timedelta(seconds=_number(env, "GRAMWATT_PROVISIONAL_EVERY_S", 30.0)),
        oidc=_oidc(env),
        requests_per_s=_number(env, "GRAMWATT_REQUESTS_PER_S", 200.0),
        intensity=_intensity(env),
        lifetime_years=settings.lifetime_years,
        overlay=overlay_file(settings, base),
        zone=_zone(env),
        keep_intervals=_days(env, "GRAMWATT_RETENTION_DAYS"),
        keep_audit=_days(env, "GRAMWATT_AUDIT_RETENTION_DAYS"),
        backup_dir=Path(folder) if (folder := env.get("GRAMWATT_BACKUP_DIR")) else None,
        backup_keep=max(1, round(_number(env, "GRAMWATT_BACKUP_KEEP", 7.0))),
        log=_log_form(env),
        hosts=tuple(_words(env, "GRAMWATT_HOSTS")),
        public_badges=_names(env, "GRAMWATT_PUBLIC_BADGES"),
        trusted_proxies=tuple(_networks(env, "GRAMWATT_TRUSTED_PROXIES")),
        alerts=AlertSettings(
            webhook_secret=env.get("GRAMWATT_WEBHOOK_SECRET", ""),
            webhook_hosts=tuple(_words(env, "GRAMWATT_WEBHOOK_HOSTS")),
            smtp_url=env.get("GRAMWATT_SMTP_URL", ""),
            mail_from=env.get("GRAMWATT_MAIL_FROM", "gramwatt@localhost"),
        ),
        reports=ReportSettings(
            organisation=env.get("GRAMWATT_ORGANISATION") or None,
            accountable=env.get("GRAMWATT_ACCOUNTABLE") or None,
            contact=env.get("GRAMWATT_CONTACT") or None,
            folder=Path(folder) if (folder := env.get("GRAMWATT_REPORT_DIR")) else None,
            mail_to=tuple(_words(env, "GRAMWATT_REPORT_EMAIL")),
            s3=_s3(env),
            projects=_names(env, "GRAMWATT_REPORT_PROJECTS"),
        ),
    )


def _s3(env: Mapping[str, str]) -> S3Access | None:
    url = env.get("GRAMWATT_REPORT_S3_URL", "")
    if not url:
        return None
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc or not parts.path.strip("/"):
        raise ConfigError(f"GRAMWATT_REPORT_S3_URL={url!r} must be https://host/bucket/prefix")
    key_id, secret = env.get("AWS_ACCESS_KEY_ID"), env.get("AWS_SECRET_ACCESS_KEY")
    if not (key_id and secret):
        raise ConfigError(
            "GRAMWATT_REPORT_S3_URL needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    region = env.get("AWS_REGION") or "us-east-1"
    return S3Access(url, key_id, secret, region, env.get("AWS_SESSION_TOKEN", ""))


def _log_form(env: Mapping[str, str]) -> Form:
    found = env.get("GRAMWATT_LOG") or "text"
    if found not in ("text", "json"):
        raise ConfigError(f"GRAMWATT_LOG={found!r} is neither text nor json")
    return "json" if found == "json" else "text"


def _zone(env: Mapping[str, str]) -> tzinfo:
    name = env.get("GRAMWATT_TIMEZONE") or "UTC"
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ConfigError(
            f"GRAMWATT_TIMEZONE={name!r} is no time zone of this machine, such as Europe/Berlin; "
            "where the machine has none: pip install tzdata"
        ) from None


def _oidc(env: Mapping[str, str]) -> OidcConfig | None:
    issuer, client_id = env.get("GRAMWATT_OIDC_ISSUER"), env.get("GRAMWATT_OIDC_CLIENT_ID")
    if not issuer:
        return None
    found = urlsplit(issuer)
    if found.scheme != "https" and found.hostname not in ("localhost", "127.0.0.1", "::1"):
        raise ConfigError(f"GRAMWATT_OIDC_ISSUER={issuer!r} must be an https:// address")
    if not client_id:
        raise ConfigError("GRAMWATT_OIDC_ISSUER needs GRAMWATT_OIDC_CLIENT_ID")
    secret_file = env.get("GRAMWATT_OIDC_CLIENT_SECRET_FILE")
    return OidcConfig(
        issuer=issuer,
        client_id=client_id,
        secret_file=Path(secret_file) if secret_file else None,
        groups_claim=env.get("GRAMWATT_OIDC_GROUPS_CLAIM") or "groups",
        admin_groups=tuple(_words(env, "GRAMWATT_OIDC_ADMIN_GROUPS")),
        read_groups=tuple(_words(env, "GRAMWATT_OIDC_READ_GROUPS")),
    )


def _intensity(env: Mapping[str, str]) -> IntensitySettings:
    accounts = {name: _account(env, name) for name in PROVIDERS}
    usable = [name for name in PROVIDERS if _usable(name, accounts[name])]
    text = env.get("GRAMWATT_INTENSITY", "").strip()
    own_names = {
        "watttime": "GRAMWATT_WATTTIME_REGIONS",
        SDK: "GRAMWATT_CARBON_AWARE_SDK_LOCATIONS",
    }
    kind = env.get("GRAMWATT_CARBON_AWARE_SDK_KIND", "").split()
    kinds = ("average", "marginal"), ("lifecycle", "direct")
    if (
        accounts[SDK].url
        and [word in of for word, of in zip(kind, kinds, strict=False)] != [True] * 2
    ):
        raise ConfigError(
            "GRAMWATT_CARBON_AWARE_SDK_URL needs GRAMWATT_CARBON_AWARE_SDK_KIND, such as "
            "'average lifecycle' or 'marginal direct': its answers do not say what they are"
        )
    return IntensitySettings(
        chains=_chains(text, usable)
        if text
        else {"": tuple(n for n in usable if n not in KEYLESS)},
        zones=tuple(_words(env, "GRAMWATT_INTENSITY_ZONES")),
        accounts=accounts,
        names={name: dict(_pairs(env, variable)) for name, variable in own_names.items()},
        sdk_kind=(kind[0], kind[1]) if len(kind) == 2 else None,
    )


def _usable(name: str, account: Account) -> bool:
    return name in KEYLESS or bool(account.url if name == SDK else account.key)


def _account(env: Mapping[str, str], name: str) -> Account:
    prefix = f"GRAMWATT_{name.upper().replace('-', '_')}"
    url, key, file = (env.get(f"{prefix}_{end}", "") for end in ("URL", "KEY", "KEY_FILE"))
    parts = urlsplit(url)
    loopback = parts.hostname in ("localhost", "127.0.0.1", "::1")
    if url and (not parts.hostname or not (parts.scheme == "https" or loopback)):
        raise ConfigError(f"{prefix}_URL={url!r} must be an https:// address")
    if file:
        try:
            key = Path(file).read_text("utf-8").strip()
        except (OSError, ValueError) as error:
            raise ConfigError(f"{prefix}_KEY_FILE={file!r} cannot be read: {why(error)}") from None
    return Account(url, key, env.get(f"{prefix}_USER", ""))


def _chains(text: str, usable: Collection[str]) -> dict[str, tuple[str, ...]]:
    """The chains of GRAMWATT_INTENSITY, such as `entsoe,uk; GB=uk; FR=off`."""
    chains: dict[str, tuple[str, ...]] = {}
    for part in filter(None, map(str.strip, text.split(";"))):
        zone, equals, listed = part.rpartition("=")
        names = tuple(listed.replace(",", " ").split())
        for name in [] if names == ("off",) else names:
            if name not in PROVIDERS:
                raise ConfigError(
                    f"GRAMWATT_INTENSITY names {name!r}; known: {', '.join(PROVIDERS)}, off"
                )
            if name not in usable:
                needed = "URL" if name == SDK else "KEY"
                variable = f"GRAMWATT_{name.upper().replace('-', '_')}_{needed}"
                raise ConfigError(f"GRAMWATT_INTENSITY names {name}, which needs {variable}")
        chains[zone.strip().upper() if equals else ""] = () if names == ("off",) else names
    return chains


def _pairs(env: Mapping[str, str], variable: str) -> Iterator[tuple[str, str]]:
    for word in _words(env, variable):
        zone, equals, name = word.partition("=")
        if not (zone and equals and name):
            raise ConfigError(f"{variable} has {word!r}; write ZONE=NAME, separated by commas")
        yield zone.upper(), name


def _words(env: Mapping[str, str], name: str) -> list[str]:
    return env.get(name, "").replace(",", " ").split()


def _names(env: Mapping[str, str], name: str) -> frozenset[str]:
    """Names of projects; a space, a comma or a percent sign in one is written as in an address."""
    return frozenset(unquote(word) for word in _words(env, name))


def _networks(env: Mapping[str, str], name: str) -> Iterator[IPv4Network | IPv6Network]:
    for word in _words(env, name):
        try:
            yield ip_network(word)
        except ValueError:
            raise ConfigError(
                f"{name}={word!r} is not an IP address or network, such as 10.0.0.7 or 10.0.0.0/8"
            ) from None


def _days(env: Mapping[str, str], name: str) -> timedelta | None:
    """A whole number of days, at least 1; None where the variable is not set."""
    if not env.get(name):
        return None
    days = _number(env, name, 1.0)
    if days < 1 or days > MOST_DAYS or days % 1:
        raise ConfigError(f"{name}={env[name]!r} must be whole days from 1 to {MOST_DAYS}")
    return timedelta(days=days)


def _number(env: Mapping[str, str], name: str, default: float) -> float:
    text = env.get(name)
    if not text:
        return default
    try:
        number = float(text)
    except ValueError:
        raise ConfigError(f"{name}={text!r} is not a number") from None
    if not 0 < number < 1e9:
        raise ConfigError(f"{name}={text!r} must be above 0 and below 1e9")
    return number
