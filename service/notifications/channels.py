"""Send one message: a signed webhook, or an e-mail. Raises SendError; nothing is retried here."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import smtplib
import socket
import ssl
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from email.message import EmailMessage
from typing import Any
from urllib.parse import unquote, urlsplit

from gramwatt.service.config import AlertSettings
from gramwatt.service.notifications.addresses import (
    AddressError,
    checked_address,
    is_public,
    parse_webhook,
)
from gramwatt.service.notifications.delivery import ReportFile

TIMEOUT_S = 10.0
SIGNATURE, DELIVERY = "Gramwatt-Signature", "Gramwatt-Delivery"


class SendError(Exception):
    """A message that was not delivered; the text says why and what to do."""


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
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException, ValueError) as error:
        why = "no answer in time" if connection.late else str(error) or type(error).__name__
        raise SendError(f"{host} did not take it: {why}") from None
    finally:
        late.cancel()
        connection.close()
    if not 200 <= status < 300:
        raise SendError(f"{host} answered {status}, not 2xx")


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
    for one in files:
        kind, _, subtype = one.media.partition(";")[0].partition("/")
        mail.add_attachment(one.content, maintype=kind, subtype=subtype, filename=one.name)
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
        raise SendError(f"{host} did not take it: {str(error)[:200]}") from None


def _login(server: smtplib.SMTP, user: str, password: str, secure: bool) -> None:
    peer = server.sock.getpeername()[0] if server.sock else ""
    if not secure and (not peer or is_public(peer)):
        raise SendError("the mail server offers no TLS, and a password is not sent without")
    server.login(unquote(user), unquote(password))
