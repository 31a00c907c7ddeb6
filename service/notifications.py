"""Messages that leave the service: alerts of budgets and finished monthly reports.

They wait in the outbox until a channel takes them: a signed webhook, a mail, a folder, or an
S3-compatible store. A webhook goes to public addresses, and to hosts that the operator allows:
otherwise a user who sets a budget could make the server send requests into its own network.

A message is claimed before it is sent, so that of several processes one sends it. One that dies
between sending and saying so leaves it to be sent again: receivers know it by its delivery id.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import smtplib
import socket
import ssl
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from email.message import EmailMessage
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import SplitResult, unquote, urlsplit

import sqlalchemy as sa
from msgspec import Struct

from gramwatt.collectors.settings.files import whole_file
from gramwatt.collectors.settings.http import unreached
from gramwatt.reports.printable import file_name
from gramwatt.sci.figures.formatting import all_digits, grams, jobs_text, minute_text, plain, text
from gramwatt.sci.figures.printable import clean, isolated
from gramwatt.sci.figures.quantity import figure_of
from gramwatt.sci.month.documents import MonthDoc
from gramwatt.service.addresses import host_name
from gramwatt.service.common.errors import NoDataError
from gramwatt.service.common.requests import cut, decode_cursor
from gramwatt.service.config import AlertSettings, S3Access
from gramwatt.service.container import Service
from gramwatt.service.months.report import month_text
from gramwatt.service.months.revisions import job_table, latest_revision
from gramwatt.service.rendering import MEDIA, MonthFormat, render_month
from gramwatt.service.store.alerts import OutboxMessage, outbox_row
from gramwatt.service.store.columns import read_month, span_us, text_from_us, upsert

if TYPE_CHECKING:
    from obstore.store import S3Config


NAT64 = IPv6Network("64:ff9b::/96")
"""IPv6 addresses that a gateway turns into any IPv4 address (RFC 6052)."""
HIDDEN = tuple(map(IPv6Network, ("64:ff9b:1::/48", "::/96", "fec0::/10")))
"""Translated locally (RFC 8215), IPv4-compatible and site-local: of no public network."""
Resolve = Callable[[str, int], Sequence[str]]


class AddressError(ValueError):
    """An address to which nothing is sent; the message says why and what to do."""


def resolve(host: str, port: int) -> Sequence[str]:
    """Return the IP addresses of a host; raises OSError."""
    rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in rows))


def parse_webhook(url: str, allowed: Collection[str]) -> SplitResult:
    """Return the parts of a webhook's address; raises AddressError for one that can never be
    used.
    """
    try:
        parts = urlsplit(url)
        host = host_name(parts.hostname or "") if parts.port != 0 else ""
    except ValueError:
        raise AddressError("that is not the address of a webhook") from None
    if not host or parts.scheme not in ("https", "http") or not url.isprintable() or " " in url:
        raise AddressError("that is not the address of a webhook; write https://host/path")
    if not (parts.path.isascii() and parts.query.isascii()):
        raise AddressError("a webhook's path is ASCII: write other signs as %C3%A4")
    if parts.username or parts.password:
        raise AddressError("a webhook's address holds no user or password; use the signature")
    if parts.scheme == "http" and host not in allowed:
        raise AddressError(
            f"webhooks to {host} need https; http is for hosts named in GRAMWATT_WEBHOOK_HOSTS"
        )
    return parts


def shown(url: str) -> str:
    """Return a webhook's address without its path, which may be a secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}" + ("/..." if parts.path.strip("/") else "")


def checked_address(
    parts: SplitResult, allowed: Collection[str], lookup: Resolve = resolve
) -> tuple[str, int]:
    """Return the IP address and port to connect to; raises AddressError for one that is not public.

    Every address that the host has must be public, unless the host is `allowed`.
    """
    host = host_name(parts.hostname or "")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        addresses = lookup(host, port)
    except (OSError, UnicodeError):
        raise AddressError(f"{host} is not known") from None
    if not addresses:
        raise AddressError(f"{host} is not known")
    if host not in allowed:
        hidden = [address for address in addresses if not is_public(address)]
        if hidden:
            raise AddressError(
                f"{host} is {hidden[0]}, which is not public; allow it in GRAMWATT_WEBHOOK_HOSTS"
            )
    return addresses[0], port


def is_public(address: str) -> bool:
    """Return whether an IP address is one of the public network, also behind what it wraps."""
    ip = ip_address(address.partition("%")[0])
    wrapped: IPv4Address | IPv6Address | None = None
    if isinstance(ip, IPv6Address):
        if any(ip in network for network in HIDDEN):
            return False
        teredo = ip.teredo
        wrapped = ip.ipv4_mapped or ip.sixtofour or (teredo[1] if teredo else None)
        if ip in NAT64:
            wrapped = IPv4Address(int(ip) & 0xFFFFFFFF)
    checked = wrapped or ip
    return checked.is_global and not checked.is_multicast


FOLDER, S3, MAIL = "report-folder", "report-s3", "report-email"
CHANNELS = (FOLDER, S3, MAIL)
DELIVERED: tuple[MonthFormat, ...] = ("html", "pdf", "xlsx", "json")
MAILED: tuple[MonthFormat, ...] = ("pdf", "xlsx")


@dataclass(frozen=True, slots=True)
class ReportFile:
    """A report as a file."""

    name: str
    media: str
    content: bytes


def announce(service: Service, month: str, project: str | None = None) -> None:
    """Put the newest kept report of a month, of all projects or one, into the outbox.

    It is put there once for each configured target.
    """
    targets = list(_targets(service))
    revision = latest_revision(service, month, project) if targets else 0
    if not revision:
        return
    now_us = service.now_us()
    doc = json.dumps({"project": project or "", "month": month, "revision": revision})
    # The digest, since a name may be longer than a key.
    of = [hashlib.sha256(project.encode()).hexdigest()] if project else []
    key = ["report", month, revision, *of]
    rows = [outbox_row(key, project or "", to, doc, now_us) for to in targets]
    with service.store.write() as session:
        upsert(session, OutboxMessage, rows)


def _targets(service: Service) -> Iterator[tuple[str, str]]:
    settings = service.config.reports
    if settings.folder is not None:
        yield FOLDER, str(settings.folder)
    if settings.s3 is not None:
        yield S3, settings.s3.url
    for address in settings.mail_to:
        yield MAIL, address


def report_files(
    service: Service, document: MonthDoc, forms: tuple[MonthFormat, ...] = DELIVERED
) -> list[ReportFile]:
    """Return a kept report as files, named by month, project if it is of one, and revision."""
    month, project, revision = document.month, document.project, document.revision
    of = f"-{file_name(project, distinct=True)}" if project else ""
    stem = f"gramwatt-{month}{of}-r{revision}"
    jobs = job_table(service, month, project, revision).jobs
    mark = service.config.reports.decimal_mark
    return [
        ReportFile(
            f"{stem}.{form}", MEDIA[form], render_month(document, form, lambda: jobs, mark=mark)
        )
        for form in forms
    ]


def report_of(service: Service, doc: dict[str, Any]) -> MonthDoc:
    """Return the kept report that a message announces; raises NoDataError."""
    project = doc["project"] or None
    text = month_text(service, doc["month"], project, revision=doc["revision"])
    return read_month(text)


def write_files(folder: Path, files: list[ReportFile]) -> None:
    """Write files whole, or not at all; raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        with whole_file(folder / file.name) as stream:
            stream.write(file.content)


def project_text(name: str) -> str:
    """Return the name of a project as a letter has it: in one line, and not too long."""
    return isolated(" ".join(name.split())[:200])


def report_letter(document: MonthDoc) -> tuple[str, str]:
    """Subject and text of the mail."""
    revision, totals = document.revision, document.totals
    project = project_text(document.project or "")
    subject = f"Energy and carbon of AI jobs, {document.month}{project and f', {project}'}"
    if revision and revision > 1:
        subject += f", revision {revision}"
    rows = [
        f"Carbon   {text(totals.total_g)}",
        f"Energy   {text(totals.energy_kwh)}",
        f"Jobs     {totals.jobs}",
        f"Data     grade {document.data_quality.grade}",
    ]
    before = document.revised
    if before:
        rows.append(f"Before   {text(before.total_g)} in revision {before.revision}")
    return subject, plain("\n".join(rows)) + "\n"


TIMEOUT_S = 10.0
SIGNATURE, DELIVERY = "Gramwatt-Signature", "Gramwatt-Delivery"


class SendError(Exception):
    """A message that was not delivered; the text says why and what to do.

    The receiver wants no other attempt before `later_s` [s], or with `final` none at all.
    """

    def __init__(self, message: str, later_s: float = 0.0, *, final: bool = False) -> None:
        super().__init__(message)
        self.later_s, self.final = later_s, final


def signature(secret: str, time_s: int, body: bytes) -> str:
    """Return the value of the header Gramwatt-Signature: time [s since 1970] and HMAC-SHA256 of
    both.
    """
    signed = f"{time_s}.".encode() + body
    return f"t={time_s},v1={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}"


def send_webhook(
    settings: AlertSettings, url: str, message: Mapping[str, Any], delivery: str, time_s: int
) -> None:
    """POST the message as signed JSON; any answer but 2xx is an error, a redirect too."""
    if not settings.webhook_secret:
        raise SendError("webhooks are signed: set GRAMWATT_WEBHOOK_SECRET")
    body = json.dumps(message, allow_nan=False).encode()
    headers = {"Content-Type": "application/json", "User-Agent": "gramwatt", DELIVERY: delivery}
    headers[SIGNATURE] = signature(settings.webhook_secret, time_s, body)
    try:
        parts = parse_webhook(url, settings.webhook_hosts)
        address, port = checked_address(parts, settings.webhook_hosts)
    except AddressError as error:
        raise SendError(str(error)) from None
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    host = parts.hostname or ""
    kind = _CheckedHttps if parts.scheme == "https" else _Checked
    connection = kind(host, port, address)
    late = threading.Timer(TIMEOUT_S, connection.cut)
    try:
        connection.connect()
        late.start()
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
    except (OSError, http.client.HTTPException, ValueError) as error:
        why = "no answer in time" if connection.late else _reason(error)
        raise SendError(f"{host} did not take it: {why}") from None
    finally:
        late.cancel()
        connection.close()
    if answer.status == http.client.GONE:
        raise SendError(f"{host} answered 410: it takes no message here any more", final=True)
    if not 200 <= answer.status < 300:
        from gramwatt.service.providers.http import later_s  # loads an HTTP client

        wait_s = later_s(answer.getheader("Retry-After"), 0.0)
        raise SendError(f"{host} answered {answer.status}, not 2xx", wait_s)


def _reason(error: Exception) -> str:
    """Return why a connection failed; of a certificate also where an authority is named.

    What the other side answered may repeat the path or the password that it was sent.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return unreached(error)[0]
    if isinstance(error, smtplib.SMTPAuthenticationError):
        return f"user or password refused ({error.smtp_code})"
    if isinstance(error, http.client.HTTPException):
        return "that is not an answer of HTTP"
    if isinstance(error, ValueError):
        return type(error).__name__
    return str(error) or type(error).__name__


class _Checked(http.client.HTTPConnection):
    """A connection to an address that was checked: the host is not looked up again."""

    def __init__(self, host: str, port: int, address: str) -> None:
        super().__init__(host, port, timeout=TIMEOUT_S)
        self._address = address
        self.late = False

    def connect(self) -> None:
        self.sock = socket.create_connection((self._address, self.port), TIMEOUT_S)

    def cut(self) -> None:
        """End what waits for the receiver; a timeout alone allows that long for every byte."""
        self.late = True
        with suppress(OSError):  # it has ended by itself
            socket.socket.shutdown(self.sock, socket.SHUT_RDWR)


class _CheckedHttps(_Checked):
    default_port = http.client.HTTPS_PORT

    def connect(self) -> None:
        super().connect()
        context = ssl.create_default_context()
        self.sock = context.wrap_socket(self.sock, server_hostname=self.host)


def send_mail(
    settings: AlertSettings,
    to: str,
    subject: str,
    text: str,
    delivery: str,
    at: datetime,
    files: Sequence[ReportFile] = (),
) -> None:
    """Send a message, dated `at`, with files by the SMTP server of GRAMWATT_SMTP_URL.

    It uses TLS where the server offers that; a password is sent to another machine only over TLS.
    """
    if not settings.smtp_url:
        raise SendError("no mail server is set: GRAMWATT_SMTP_URL=smtp://host:25")
    parts = urlsplit(settings.smtp_url)
    mail = EmailMessage()
    try:
        mail["From"], mail["To"], mail["Subject"] = settings.mail_from, to, subject
    except (AttributeError, LookupError, TypeError, ValueError):  # the parser of addresses fails
        raise SendError(f"{settings.mail_from!r} or {to!r} is not a mail address") from None
    mail["Date"] = at
    mail["Message-ID"] = f"<{delivery}@gramwatt>"
    mail.set_content(text)
    for file in files:
        kind, _, subtype = file.media.partition(";")[0].partition("/")
        mail.add_attachment(file.content, maintype=kind, subtype=subtype, filename=file.name)
    host, secure = parts.hostname or "localhost", parts.scheme == "smtps"
    port = parts.port or (465 if secure else 25)
    try:
        if secure:
            context = ssl.create_default_context()
            server: smtplib.SMTP = smtplib.SMTP_SSL(host, port, timeout=TIMEOUT_S, context=context)
        else:
            server = smtplib.SMTP(host, port, timeout=TIMEOUT_S)
        with server:
            if not secure:
                server.ehlo()
                if server.has_extn("starttls"):
                    server.starttls(context=ssl.create_default_context())
                    secure = True
            if parts.username:
                _login(server, parts.username, parts.password or "", secure)
            server.send_message(mail)
    except (OSError, smtplib.SMTPException, ValueError) as error:
        raise SendError(f"{host} did not take it: {_reason(error)[:200]}") from None


def _login(server: smtplib.SMTP, user: str, password: str, secure: bool) -> None:
    peer = server.sock.getpeername()[0] if server.sock else ""
    if not secure and (not peer or is_public(peer)):
        raise SendError("the mail server offers no TLS, and a password is not sent without")
    server.login(unquote(user), unquote(password))


S3_TIMEOUT = timedelta(seconds=30)


class S3Error(Exception):
    """A file that the store did not take; the text says why."""


def put_s3(access: S3Access, name: str, content: bytes, media: str) -> None:
    """Store `content` as `name` under the address's bucket and prefix; raises S3Error."""
    try:
        import obstore
        from obstore.exceptions import BaseError
        from obstore.store import S3Store
    except ImportError:
        how = "install it as gramwatt was installed, such as '.[s3]' in a checkout"
        raise S3Error(f"an S3 store needs the extra `s3`: {how}") from None
    parts = urlsplit(access.url)
    bucket, _, prefix = parts.path.strip("/").partition("/")
    config: S3Config = {
        "endpoint": f"{parts.scheme}://{parts.netloc}",
        "region": access.region,
        "access_key_id": access.key_id,
        "secret_access_key": access.secret,
    }
    if access.token:
        config["session_token"] = access.token
    try:
        store = S3Store(
            bucket,
            prefix=prefix or None,
            config=config,
            client_options={"timeout": S3_TIMEOUT, "allow_http": parts.scheme == "http"},
            retry_config={"max_retries": 0},  # the outbox tries again
        )
        obstore.put(store, name, content, attributes={"Content-Type": media}, use_multipart=False)
    except BaseError as error:
        raise S3Error(f"{parts.netloc}: {str(error).partition(chr(10))[0]}") from None


ATTEMPTS = 12
FIRST_WAIT, LONGEST_WAIT = timedelta(minutes=1), timedelta(hours=6)
"""The wait after the first failure, doubled after each further one: 12 attempts take 20.5 hours."""
CLAIM = timedelta(minutes=2)
"""How long a process may take to send one message; after that it is another's."""
AT_ONCE = 20
MessageState = Literal["waiting", "sent", "failed"]


class OutboxRow(Struct):
    """A message: where it goes, how often it was tried, and why it is not there yet.

    The path of a webhook's address is not shown, since it may be a secret.
    """

    id: int
    project: str
    month: str
    threshold: float | None
    channel: str
    target: str
    state: MessageState
    attempts: int
    made_at: str
    next_at: str | None
    sent_at: str | None
    error: str | None


class OutboxAnswer(Struct):
    """A page of messages, newest first; `next_cursor` is null at the end."""

    messages: list[OutboxRow]
    next_cursor: str | None


def deliver(service: Service) -> int:
    """Send the messages that are due, oldest first; how many were taken."""
    unsent = OutboxMessage.sent_us.is_(None)
    due = sa.select(OutboxMessage.id).where(unsent, _is_due(service.now_us()))
    with service.store.read() as session:
        ids = list(session.scalars(due.order_by(OutboxMessage.id).limit(AT_ONCE)))
    return sum(_deliver(service, key) for key in ids)


def _is_due(now_us: int) -> sa.ColumnElement[bool]:
    """Return whether a message is due.

    No wait is longer than LONGEST_WAIT: a later time was written while the clock was ahead.
    """
    next_us = OutboxMessage.next_us
    return sa.or_(next_us <= now_us, next_us > now_us + span_us(LONGEST_WAIT))


def outbox_page(service: Service, limit: int, cursor: str | None) -> OutboxAnswer:
    """Messages, newest first; raises CursorError."""
    statement = sa.select(OutboxMessage).order_by(OutboxMessage.id.desc()).limit(limit + 1)
    if cursor:
        statement = statement.where(OutboxMessage.id < decode_cursor(cursor, int)[0])
    with service.store.read() as session:
        rows = session.scalars(statement).all()
    page, following = cut(rows, limit, lambda row: (row.id,))
    return OutboxAnswer(messages=[_row(row) for row in page], next_cursor=following)


def _deliver(service: Service, key: int) -> bool:
    message = _claimed(service, key)
    if message is None:
        return False
    try:
        _send(service, message)
    except SendError as error:
        failed = error.final or message.attempts >= ATTEMPTS
        wait = max(FIRST_WAIT * 2 ** (message.attempts - 1), timedelta(seconds=error.later_s))
        wait = min(wait, LONGEST_WAIT)
        next_us = None if failed else service.now_us() + span_us(wait)
        # What a receiver says may hold anything; PostgreSQL takes no text with a NUL in it.
        error_text = " ".join(clean(str(error)).split())[:500]
        _note(service, key, next_us=next_us, error=error_text)
        return False
    _note(service, key, next_us=None, sent_us=service.now_us(), error=None)
    return True


def _claimed(service: Service, key: int) -> OutboxMessage | None:
    """Return the message, for this process alone; None when another has it, or has sent it."""
    now_us = service.now_us()
    with service.store.write() as session:
        statement = (
            sa.select(OutboxMessage)
            .where(OutboxMessage.id == key, OutboxMessage.sent_us.is_(None), _is_due(now_us))
            .with_for_update()
        )
        row = session.scalars(statement).one_or_none()
        if row is None:
            return None
        row.attempts += 1
        row.next_us = now_us + span_us(CLAIM)
        return row


def _note(service: Service, key: int, **values: Any) -> None:
    change = sa.update(OutboxMessage).where(OutboxMessage.id == key).values(**values)
    with service.store.write() as session:
        session.execute(change)


def _send(service: Service, message: OutboxMessage) -> None:
    settings, doc = service.config.alerts, json.loads(message.doc)
    delivery = f"gramwatt-{message.made_us}-{message.id}"
    if message.channel == "webhook":
        body = {**doc, "id": delivery}
        send_webhook(settings, message.target, body, delivery, service.now_us() // 1_000_000)
    elif message.channel in CHANNELS:
        _send_report(service, message, doc, delivery)
    else:
        subject, lines = _budget_letter(doc)
        send_mail(settings, message.target, subject, lines, delivery, service.now())


def _send_report(
    service: Service, message: OutboxMessage, doc: dict[str, Any], delivery: str
) -> None:
    settings = service.config.reports
    try:
        document = report_of(service, doc)
        if message.channel == MAIL:
            files = report_files(service, document, MAILED)
            subject, lines = report_letter(document)
            send_mail(
                service.config.alerts,
                message.target,
                subject,
                lines,
                delivery,
                service.now(),
                files,
            )
        elif message.channel == FOLDER:
            write_files(Path(message.target), report_files(service, document))
        elif settings.s3 is None:
            raise SendError("GRAMWATT_REPORT_S3_URL is not set any more")
        else:
            access = replace(settings.s3, url=message.target)
            for file in report_files(service, document):
                put_s3(access, file.name, file.content, file.media)
    except (OSError, S3Error, NoDataError) as error:
        raise SendError(str(error)) from None


def _budget_letter(doc: dict[str, Any]) -> tuple[str, str]:
    project = project_text(str(doc["project"]))
    spent, ahead = figure_of(doc, "spent_kg"), figure_of(doc, "forecast_kg")
    subject = f"{project}: {doc['threshold_percent']:g} % of the budget of {doc['month']} is spent"
    rows = [
        f"Project   {project}",
        f"Month     {doc['month']}",
        f"Budget    {all_digits(doc['limit_kg'])} kg CO2e",
        f"Spent     {text(grams(spent))}, {doc['spent_share']:.0%} of the budget",
        f"Forecast  {text(grams(ahead)) if ahead else doc['forecast_reason']}",
        f"Noticed   {minute_text(doc['at'])} UTC",
    ]
    if doc["jobs_running"]:
        rows.append(f"Running   {jobs_text(doc['jobs_running'])}, with what they emitted so far")
    if doc["jobs_unknown"]:
        rows.append(f"Unknown   {jobs_text(doc['jobs_unknown'])}, whose whole sum is not known")
    return subject, plain("\n".join(rows)) + "\n"


def _row(row: OutboxMessage) -> OutboxRow:
    doc = json.loads(row.doc)
    state: MessageState = "waiting"
    if row.sent_us is not None:
        state = "sent"
    elif row.next_us is None:
        state = "failed"
    return OutboxRow(
        id=row.id,
        project=doc["project"],
        month=doc["month"],
        threshold=doc.get("threshold_percent"),
        channel=row.channel,
        target=shown(row.target) if row.channel == "webhook" else row.target,
        state=state,
        attempts=row.attempts,
        made_at=text_from_us(row.made_us),
        next_at=text_from_us(row.next_us) if row.next_us is not None else None,
        sent_at=text_from_us(row.sent_us) if row.sent_us is not None else None,
        error=row.error,
    )
