"""Settings of the service: defaults, then the environment, then arguments.

SETTINGS has each variable once, with its field, how its text is read, and what it is for people.
Reading the environment, the page of settings and docs/reference/settings.md follow from it.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from email.message import EmailMessage
from functools import partial
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import SplitResult, quote, unquote, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from gramwatt.collectors.settings.catalogs import overlay_file
from gramwatt.collectors.settings.config import plain_address, resolve
from gramwatt.collectors.settings.files import why
from gramwatt.service.addresses import host_name, parse_url, plain_ip

if TYPE_CHECKING:
    from gramwatt.sci.month.documents import MarketFactor, StatementDoc


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
    Figures are printed with the `decimal_mark`. Years are compared with the `base_year`, and with
    `targets` [kgCO2e] by year. `market_factors` are those of the memo, by zone.
    """

    organisation: str | None = None
    accountable: str | None = None
    contact: str | None = None
    folder: Path | None = None
    mail_to: tuple[str, ...] = ()
    s3: S3Access | None = None
    projects: frozenset[str] = frozenset()
    base_year: int | None = None
    decimal_mark: Literal[".", ","] = "."
    targets: tuple[tuple[int, float], ...] = ()
    market_factors: Mapping[str, MarketFactor] = field(default_factory=dict)

    def statement(self) -> StatementDoc:
        """Return who answers for the report."""
        from gramwatt.sci.month.documents import StatementDoc

        return StatementDoc(
            organisation=self.organisation, accountable=self.accountable, contact=self.contact
        )


@dataclass(frozen=True, slots=True)
class GroupProjects:
    """A group of the provider, the projects that its people see, and what they may do there."""

    group: str
    projects: frozenset[str]
    scope: str

    def __str__(self) -> str:
        names = ",".join(quote(name, safe="") for name in sorted(self.projects))
        return f"{quote(self.group, safe='/')}={names}:{self.scope}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcConfig:
    """The OpenID Connect provider of the pages, and which of its groups may do what."""

    issuer: str = field(repr=False)
    client_id: str
    secret_file: Path | None = None
    groups_claim: str = "groups"
    admin_groups: tuple[str, ...] = ()
    read_groups: tuple[str, ...] = ()
    projects: tuple[GroupProjects, ...] = ()

    def client_secret(self) -> str | None:
        """Return the secret in its file; None for a public client. Raises OSError."""
        return self.secret_file.read_text("utf-8").strip() if self.secret_file else None


Form = Literal["text", "json"]
"""How the service logs: warnings for people, or every request as a JSON line."""

MIB = 2**20
MOST_DAYS = 36_500
FACTOR_MOST = 5_000.0
"""More than any source of electricity emits [gCO2e/kWh]."""
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")
KEYED, KEYLESS = ("electricity-maps", "entsoe", "eia"), ("uk", "energinet")
_BARE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
EACH_PROJECT = "*"
"""In GRAMWATT_REPORT_PROJECTS: every project."""
PROVIDERS = (*KEYED, *KEYLESS)
"""Providers of grid intensity, in the order of the usual chain."""


class ConfigError(ValueError):
    """A setting that cannot be used; the message names the variable and what it may be."""


def utc_now() -> datetime:
    """Return the wall clock; everything else is given its clock, so that tests can set it."""
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

    url: str = field(default="", repr=False)
    key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class IntensitySettings:
    """Who is asked for grid intensity: docs/intensity.md describes the variables.

    `chains` has the providers by zone, best first, and under "" those of every other zone.
    """

    chains: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    zones: tuple[str, ...] = ()
    accounts: Mapping[str, Account] = field(default_factory=dict)

    def chain(self, zone: str) -> tuple[str, ...]:
        """Return the names of a zone's providers, best first."""
        names = self.chains.get(zone)
        return self.chains.get("", ()) if names is None else names


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceConfig:
    """The settings of the service: SETTINGS says what each is.

    None is for good in `keep_audit`, the catalog's value in `lifetime_years`, and none of them in
    `backup_dir`. In `keep_intervals`, by project, "" is every other one.
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
    session_lasts: timedelta = timedelta(hours=12)
    oidc: OidcConfig | None = None
    lifetime_years: float | None = None
    overlay: Path | None = None
    keep_intervals: Mapping[str, timedelta] = field(default_factory=dict)
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
        return frozenset((*LOOPBACK_HOSTS, *map(host_name, self.hosts)))


def sqlite_url(path: Path) -> str:
    """Return the SQLAlchemy address of an SQLite file."""
    return f"sqlite:///{path}"


def _as_is(_variable: str, text: str) -> str:
    return text


def _path(_variable: str, text: str) -> Path:
    return Path(text)


def _key_file(variable: str, text: str) -> str:
    try:
        return Path(text).read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        raise ConfigError(f"{variable}={text!r} cannot be read: {why(error)}") from None


def _require_codes(variable: str, text: str) -> None:
    """Raise ConfigError for a percent sign that is not written as in an address, and for quotes.

    Docker's env files keep quotes, and within a list they would join no words.
    """
    if '"' in text:
        raise ConfigError(f'{variable} has a "; write a space in a word as %20, a " as %22')
    if _BARE_PERCENT.search(text):
        raise ConfigError(f"{variable} has a % without a code; write %25 for %, %20 for a space")


def _parts(variable: str, text: str) -> list[str]:
    """Return the words of a list, separated by spaces or commas, as they are written.

    A space, a comma or a percent sign in a name is written as in an address.
    """
    _require_codes(variable, text)
    return text.replace(",", " ").split()


def _words(variable: str, text: str) -> tuple[str, ...]:
    return tuple(map(unquote, _parts(variable, text)))


def _names(variable: str, text: str) -> frozenset[str]:
    return frozenset(_words(variable, text))


def _number(variable: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ConfigError(f"{variable}={text!r} is not a number") from None
    if not 0 < number < 1e9:
        raise ConfigError(f"{variable}={text!r} must be above 0 and below 1e9")
    return number


def _year(variable: str, text: str) -> int:
    if not re.fullmatch(r"(19|20|21)\d\d", text):
        raise ConfigError(f"{variable}={text!r} is not a year, such as 2026")
    return int(text)


def _targets(variable: str, text: str) -> tuple[tuple[int, float], ...]:
    """Return kilograms by year, of `2027=12000 2030=8000`."""
    pairs = [word.partition("=") for word in text.split()]
    return tuple(sorted((_year(variable, y), _number(variable, kg)) for y, _, kg in pairs))


def _market_factors(variable: str, text: str) -> dict[str, MarketFactor]:
    """Return factors and who states them by zone, of `DE=350 statement of 2026; FR=20 AIB`."""
    from gramwatt.sci.month.documents import MarketFactor  # rarely set

    factors: dict[str, MarketFactor] = {}
    for part in filter(None, map(str.strip, text.split(";"))):
        zone, _, rest = part.partition("=")
        number, _, source = rest.strip().partition(" ")
        try:
            g_per_kwh = float(number)
        except ValueError:
            g_per_kwh = math.nan
        name = zone.strip().upper()
        if not (name and 0 <= g_per_kwh <= FACTOR_MOST and source.strip()):
            raise ConfigError(
                f"{variable} has {part!r}; write ZONE=G SOURCE, separated by semicolons: "
                f"0 to {FACTOR_MOST:g} g/kWh, and who states it"
            )
        if name in factors:
            raise ConfigError(f"{variable} names {name} twice")
        factors[name] = MarketFactor(g_per_kwh, source.strip())
    return factors


def _count(variable: str, text: str) -> int:
    return max(1, round(_number(variable, text)))


def _mebibytes(variable: str, text: str) -> int:
    return round(_number(variable, text) * MIB)


def _seconds(variable: str, text: str) -> timedelta:
    return timedelta(seconds=_number(variable, text))


def _hours(variable: str, text: str) -> timedelta:
    hours = _number(variable, text)
    if hours > 24 * MOST_DAYS:
        raise ConfigError(f"{variable}={text!r} must be at most {24 * MOST_DAYS}")
    return timedelta(hours=hours)


def _days(variable: str, text: str) -> timedelta:
    """Return a whole number of days, at least 1."""
    days = _number(variable, text)
    if days < 1 or days > MOST_DAYS or days % 1:
        raise ConfigError(f"{variable}={text!r} must be whole days from 1 to {MOST_DAYS}")
    return timedelta(days=days)


def _days_by_project(variable: str, text: str) -> dict[str, timedelta]:
    """Return days by project, under "" those of every other, of `400 vision=30`."""
    pairs = [word.rpartition("=") for word in _parts(variable, text)]
    return {unquote(name): _days(variable, days) for name, _, days in pairs}


def _group_projects(variable: str, text: str) -> tuple[GroupProjects, ...]:
    """Return what groups see, of `team-vision=vision,video leads=vision:admin`."""
    groups = []
    _require_codes(variable, text)
    for word in text.split():
        group, _, rest = word.partition("=")
        names, colon, scope = rest.partition(":")
        projects = frozenset(unquote(name) for name in names.split(",") if name)
        if not group or not projects or scope not in ("read", "admin") and colon:
            raise ConfigError(
                f"{variable} has {word!r}; write GROUP=PROJECT,PROJECT or GROUP=PROJECT:admin, "
                "with a space, comma, colon or equals sign in a name as in an address (%20)"
            )
        groups.append(GroupProjects(unquote(group), projects, scope or "read"))
    return tuple(groups)


def _one_of(choices: str, variable: str, text: str) -> str:
    if text not in choices.split():
        raise ConfigError(f"{variable}={text!r} is none of: {choices}")
    return text


def _zone(variable: str, text: str) -> tzinfo:
    if text == "UTC":
        return UTC
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ConfigError(
            f"{variable}={text!r} is not a time zone that this machine has, such as Europe/Berlin; "
            "where the machine has none: pip install tzdata"
        ) from None


def _networks(variable: str, text: str) -> tuple[IPv4Network | IPv6Network, ...]:
    networks = []
    for word in _words(variable, text):
        try:
            networks.append(ip_network(plain_ip(word) or word))
        except ValueError:
            raise ConfigError(
                f"{variable}={word!r} is not an IP address or network, such as 10.0.0.7 or "
                "10.0.0.0/8"
            ) from None
    return tuple(networks)


def _hosts(variable: str, text: str) -> tuple[str, ...]:
    """Return hosts as they are compared: a port may be written, and counts for nothing."""
    hosts = []
    for word in _words(variable, text):
        try:
            hosts.append(host_name(word))
        except ValueError:
            raise ConfigError(
                f"{variable} has {plain_address(word)!r}, which is not one host; write names or "
                "addresses alone, such as gramwatt.example.org or fd00::7"
            ) from None
    return tuple(hosts)


def _database(variable: str, text: str) -> str:
    try:
        parse_url(text)
    except ValueError as error:  # its text has nothing of the address, as that may have a password
        raise ConfigError(f"{variable}: {error}") from None
    return text


def _parts_of(text: str) -> SplitResult | None:
    """Return the parts of an address; None where host or port cannot be told."""
    try:
        parts = urlsplit(text)
        return parts if parts.hostname and parts.port != 0 else None
    except ValueError:
        return None


def _https(variable: str, text: str) -> str:
    parts = _parts_of(text)
    loopback = parts is not None and parts.hostname in LOOPBACK_HOSTS
    if parts is None or not (parts.scheme == "https" or (parts.scheme == "http" and loopback)):
        raise ConfigError(f"{variable}={plain_address(text)!r} must be an https:// address")
    return text


def _mail_addresses(variable: str, text: str) -> tuple[str, ...]:
    return tuple(_mail_address(variable, word) for word in _words(variable, text))


def _mail_address(variable: str, text: str) -> str:
    mail = EmailMessage()
    try:
        mail["From"] = text
        [address] = mail["From"].addresses
        whole = text.rstrip().endswith((">", address.domain))
        if address.username and address.domain and whole and not mail["From"].defects:
            return text
    except (AttributeError, LookupError, TypeError, ValueError):  # the parser of addresses fails
        pass
    raise ConfigError(f"{variable}={text!r} is not a mail address, such as ops@example.org")


def _mail_server(variable: str, text: str) -> str:
    """Return the address as it is; nothing of it stands in the message, as it may have a password.

    A sign such as / in a password would end the host, and another machine would get the mail.
    """
    parts = _parts_of(text)
    more = parts is None or parts.path.strip("/") or parts.query or parts.fragment
    if parts is None or more or parts.scheme not in ("smtp", "smtps"):
        raise ConfigError(
            f"{variable} is not the address of a mail server, such as smtp://host:25 or "
            "smtps://user:password@host:465, with / : @ # ? % in a password as in an address (%2F)"
        )
    return text


def _bucket(variable: str, text: str) -> str:
    parts = _parts_of(text)
    if not parts or parts.scheme not in ("http", "https") or not parts.path.strip("/"):
        raise ConfigError(f"{variable}={plain_address(text)!r} must be https://host/bucket/prefix")
    if parts.username or parts.password:  # a target is shown to whoever reads the outbox
        raise ConfigError(f"{variable} holds no user or password; see AWS_ACCESS_KEY_ID")
    return text


@dataclass(frozen=True, slots=True)
class Setting:
    """A variable of the environment, the field of ServiceConfig that it sets, and what it is.

    `read` makes the value of variable and text, or raises ConfigError; it is None where the value
    depends on more than this text. Of a `secret`, which is empty by default, only whether it is
    set may be shown. Where two variables set one field, the later in SETTINGS counts.
    """

    field: str
    key: str
    text: str
    read: Callable[[str, str], Any] | None = _as_is
    secret: bool = False

    @property
    def variable(self) -> str:
        """The whole name of the variable."""
        return f"GRAMWATT_{self.key}"

    @property
    def meaning(self) -> str:
        """The text and how it goes on, in Markdown."""
        return self.text + MORE.get(self.key, "")


def _provider_settings() -> Iterator[Setting]:
    for name in PROVIDERS:
        at, key = f"intensity.accounts.{name}", name.upper().replace("-", "_")
        yield Setting(f"{at}.url", f"{key}_URL", "another address, as for a mirror", _https)
        if name in KEYED:
            yield Setting(f"{at}.key", f"{key}_KEY", "the key", secret=True)
            text = "a file that holds the key"
            yield Setting(f"{at}.key", f"{key}_KEY_FILE", text, _key_file, secret=True)


SETTINGS: tuple[Setting, ...] = (
    Setting("database_url", "DATABASE_URL", "the store", _database),
    Setting("home", "HOME", "spool and store", None),
    Setting("max_body_b", "MAX_BODY_MIB", "largest request body [MiB]", _mebibytes),
    Setting("silent_after", "SILENT_AFTER_S", "silence [s] after which a job is lost", _seconds),
    Setting(
        "provisional_every", "PROVISIONAL_EVERY_S", "age [s] of a score that is renewed", _seconds
    ),
    Setting("hosts", "HOSTS", "further host names that requests may name", _hosts),
    Setting("trusted_proxies", "TRUSTED_PROXIES", "proxies that are believed", _networks),
    Setting("requests_per_s", "REQUESTS_PER_S", "sustained rate of requests of a key", _number),
    Setting("public_badges", "PUBLIC_BADGES", "projects whose badge anybody may see", _names),
    Setting("lifetime_years", "LIFETIME_YEARS", "expected lifetime EL of hardware [years]", None),
    Setting("overlay", "OVERLAY", "file of own catalog entries", None),
    Setting("keep_intervals", "RETENTION_DAYS", "days that intervals are kept", _days_by_project),
    Setting("keep_audit", "AUDIT_RETENTION_DAYS", "whole days that the audit log is kept", _days),
    Setting("zone", "TIMEZONE", "time zone of days and months", _zone),
    Setting("backup_dir", "BACKUP_DIR", "folder of the daily backups of SQLite", _path),
    Setting("backup_keep", "BACKUP_KEEP", "how many backups are kept", _count),
    Setting("log", "LOG", "form of the log", partial(_one_of, "text json")),
    Setting("oidc.issuer", "OIDC_ISSUER", "address of the provider of sign-in", _https),
    Setting("oidc.client_id", "OIDC_CLIENT_ID", "the client's id there"),
    Setting("oidc.secret_file", "OIDC_CLIENT_SECRET_FILE", "file with the client's secret", _path),
    Setting("oidc.groups_claim", "OIDC_GROUPS_CLAIM", "the claim with the reader's groups"),
    Setting("oidc.admin_groups", "OIDC_ADMIN_GROUPS", "groups that may do everything", _words),
    Setting("oidc.read_groups", "OIDC_READ_GROUPS", "groups that may read every project", _words),
    Setting("oidc.projects", "OIDC_PROJECTS", "groups and their projects", _group_projects),
    Setting("session_lasts", "SESSION_HOURS", "hours until a browser signs in again", _hours),
    Setting(
        "alerts.webhook_secret", "WEBHOOK_SECRET", "signs the messages of webhooks", secret=True
    ),
    Setting("alerts.webhook_hosts", "WEBHOOK_HOSTS", "further hosts of webhooks", _hosts),
    Setting("alerts.smtp_url", "SMTP_URL", "mail server", _mail_server, secret=True),
    Setting("alerts.mail_from", "MAIL_FROM", "sender of mails", _mail_address),
    Setting("reports.organisation", "ORGANISATION", "organisation in the statement"),
    Setting("reports.accountable", "ACCOUNTABLE", "who is accountable for the report"),
    Setting("reports.contact", "CONTACT", "whom to ask about the report"),
    Setting("reports.decimal_mark", "DECIMAL_MARK", "decimal mark", partial(_one_of, ". ,")),
    Setting("reports.base_year", "BASE_YEAR", "year that later ones are compared with", _year),
    Setting("reports.targets", "TARGETS", "what years may emit, as YEAR=KG", _targets),
    Setting(
        "reports.market_factors",
        "MARKET_FACTORS",
        "market-based factors of the months' memo, as ZONE=G SOURCE",
        _market_factors,
    ),
    Setting("reports.projects", "REPORT_PROJECTS", "projects with a report of their own", _names),
    Setting("reports.folder", "REPORT_DIR", "folder of finished reports", _path),
    Setting("reports.mail_to", "REPORT_EMAIL", "addresses of finished reports", _mail_addresses),
    Setting("reports.s3.url", "REPORT_S3_URL", "S3-compatible store of finished reports", _bucket),
    Setting("intensity.chains", "INTENSITY", "the chain of providers", None),
    Setting("intensity.zones", "INTENSITY_ZONES", "zones that are always kept up to date", _words),
    *_provider_settings(),
)
"""Every variable that sets something of the service, in the order in which they are shown."""

MORE: Mapping[str, str] = {
    "DATABASE_URL": (
        ": `sqlite:////path/file.db` or `postgresql://user@host/name`, of several hosts "
        "`postgresql://user@h1:5432,h2:5432/name?target_session_attrs=read-write`; the driver"
        " is psycopg 3, whichever the address names"
    ),
    "SILENT_AFTER_S": (
        ": closed as `lost` at its last line; a later line opens it again. Only time in which"
        " a server listened counts"
    ),
    "PROVISIONAL_EVERY_S": ", of a running job that somebody asks for",
    "HOSTS": (
        ", separated by spaces: names or IP addresses alone; capitals and ports count for nothing"
    ),
    "TRUSTED_PROXIES": " about a client: addresses or networks, separated by spaces",
    "REQUESTS_PER_S": " that each process answers [1/s]",
    "PUBLIC_BADGES": ", separated by spaces",
    "RETENTION_DAYS": (
        " after the end of their job, for every project, and `NAME=N` for one (`90 vision=30`)"
    ),
    "AUDIT_RETENTION_DAYS": ", each entry for itself",
    "TIMEZONE": ", such as `Europe/Berlin`",
    "BACKUP_DIR": ", `gramwatt-TIME.db`, made by the process that leads",
    "LOG": (
        "; `text`: warnings and errors for people; `json`: one JSON object per line, with "
        "every request"
    ),
    "OIDC_ISSUER": ", `https://`",
    "OIDC_CLIENT_SECRET_FILE": "; none for a public client",
    "OIDC_GROUPS_CLAIM": ", `groups` by default; one within another is `realm_access.roles`",
    "OIDC_ADMIN_GROUPS": ", in every project",
    "OIDC_READ_GROUPS": (", separated by spaces or commas"),
    "OIDC_PROJECTS": (
        ": `GROUP=PROJECT,PROJECT` to read, `GROUP=PROJECT:admin` for everything in it"
    ),
    "WEBHOOK_SECRET": "; without it none is sent",
    "WEBHOOK_HOSTS": ", which need be neither public nor reached by TLS; separated by commas",
    "SMTP_URL": (
        ": `smtp://host:25`, `smtp://user:password@host:587`, `smtps://host:465`, with signs "
        "such as `/`, `@` and `#` in a password as in an address (`%2F`). It is checked at "
        "the start. TLS is used where the server offers it, and a password goes to a public "
        "address only with it"
    ),
    "ORGANISATION": " of the report",
    "ACCOUNTABLE": ", in its statement",
    "CONTACT": ", in its statement",
    "DECIMAL_MARK": " of reports in HTML and PDF; JSON and tables have the point",
    "BASE_YEAR": ": `2024`",
    "TARGETS": (
        ": `2027=12000 2030=8000`. The report says how much of it the year is, and once "
        "complete whether its whole range is below (`met`)"
    ),
    "MARKET_FACTORS": (
        ": in gCO2e/kWh, with who states them, such as `DE=350 statement of the supplier for "
        "2026; FR=0 cancelled guarantees of origin` (made up). It changes no score, no total "
        "and no kept revision"
    ),
    "REPORT_PROJECTS": (" each month, separated by spaces, or `*` for each"),
    "REPORT_DIR": (
        ": `gramwatt-2026-05-r1.html`, `.pdf`, `.xlsx`, `.json`; of a project "
        "`gramwatt-2026-05-vision-r1.html`"
    ),
    "REPORT_EMAIL": (
        ", separated by spaces: a mail with PDF and Excel file, by the server of "
        "`GRAMWATT_SMTP_URL`"
    ),
    "REPORT_S3_URL": (
        ", `https://host/bucket/prefix`: the same files. It needs the extra `s3`. The key is "
        "in `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, and `AWS_SESSION_TOKEN` if there is"
        " one; `AWS_REGION` is `us-east-1` unless set"
    ),
    "INTENSITY": (
        ", in the order in which they count, such as `entsoe,electricity-maps`. Own chains of"
        " zones follow: `entsoe; GB=uk,entsoe; FR=off`. Default: every provider with a key, "
        "in the order of the table; `uk` and `energinet` only where they are named. `off`: "
        "none"
    ),
    "INTENSITY_ZONES": ", also without a job, for plans: `DE,FR`",
    "ELECTRICITY_MAPS_URL": ": https, or this machine",
    "ELECTRICITY_MAPS_KEY_FILE": ", in place of it",
    "ENTSOE_URL": ": https, or this machine",
    "ENTSOE_KEY_FILE": ", in place of it",
    "EIA_URL": ": https, or this machine",
    "EIA_KEY_FILE": ", in place of it",
    "UK_URL": ": https, or this machine",
    "ENERGINET_URL": ": https, or this machine",
}
"""How the texts of some settings go on, in Markdown, for docs/reference/settings.md."""


def settings_of(config: ServiceConfig) -> Iterator[tuple[Setting, Any]]:
    """Yield every setting with its value, None where what it belongs to is not in use."""
    for setting in SETTINGS:
        value: Any = config
        for name in setting.field.split("."):
            value = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
        yield setting, value


def from_environment(
    environ: Mapping[str, str] | None = None, *, home: Path | None = None
) -> ServiceConfig:
    """Settings from `GRAMWATT_...` variables; raises ConfigError for one that cannot be used."""
    env = os.environ if environ is None else environ
    common = resolve(environ=env)
    base = home or common.home
    return ServiceConfig(
        **{"database_url": sqlite_url(base / "gramwatt.db"), **_given(env)},
        home=base,
        lifetime_years=common.lifetime_years,
        overlay=overlay_file(common, base),
        oidc=_oidc(_given(env, "oidc.")),
        intensity=_intensity(env),
        alerts=AlertSettings(**_given(env, "alerts.")),
        reports=ReportSettings(**_given(env, "reports."), s3=_s3(env)),
    )


def _given(env: Mapping[str, str], group: str = "") -> dict[str, Any]:
    """Return the values of a group's variables that are set and not empty, by field."""
    return {
        name: setting.read(setting.variable, text)
        for setting in SETTINGS
        if setting.field.startswith(group)
        and "." not in (name := setting.field.removeprefix(group))
        and setting.read
        and (text := env.get(setting.variable))
    }


def _s3(env: Mapping[str, str]) -> S3Access | None:
    settings = _given(env, "reports.s3.")
    if not settings:
        return None
    key_id, secret = env.get("AWS_ACCESS_KEY_ID"), env.get("AWS_SECRET_ACCESS_KEY")
    if not (key_id and secret):
        raise ConfigError(
            "GRAMWATT_REPORT_S3_URL needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    region = env.get("AWS_REGION") or "us-east-1"
    return S3Access(settings["url"], key_id, secret, region, env.get("AWS_SESSION_TOKEN", ""))


def _oidc(settings: dict[str, Any]) -> OidcConfig | None:
    if "issuer" not in settings:
        return None
    if "client_id" not in settings:
        raise ConfigError("GRAMWATT_OIDC_ISSUER needs GRAMWATT_OIDC_CLIENT_ID")
    return OidcConfig(**settings)


def _intensity(env: Mapping[str, str]) -> IntensitySettings:
    accounts = {name: Account(**_given(env, f"intensity.accounts.{name}.")) for name in PROVIDERS}
    usable = [name for name in PROVIDERS if name in KEYLESS or accounts[name].key]
    text = env.get("GRAMWATT_INTENSITY", "").strip()
    chains = _chains(text, usable) if text else {"": tuple(n for n in usable if n not in KEYLESS)}
    return IntensitySettings(chains=chains, accounts=accounts, **_given(env, "intensity."))


def _chains(text: str, usable: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return the chains of GRAMWATT_INTENSITY, such as `entsoe,uk; GB=uk; FR=off`."""
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
                variable = f"GRAMWATT_{name.upper().replace('-', '_')}_KEY"
                raise ConfigError(f"GRAMWATT_INTENSITY names {name}, which needs {variable}")
        chains[zone.strip().upper() if equals else ""] = () if names == ("off",) else names
    return chains
