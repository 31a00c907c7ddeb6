"""A certificate authority of one's own: SSL_CERT_FILE is for every connection that leaves."""

import http.server
import ipaddress
import ssl
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from aiosmtpd.controller import Controller
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gramwatt.collectors.settings.http import Unanswered, exchange, new_session
from gramwatt.service.access import oidc
from gramwatt.service.common.errors import LoginError
from gramwatt.service.config import AlertSettings, OidcConfig, S3Access
from gramwatt.service.notifications import S3Error, SendError, put_s3, send_mail, send_webhook

ALERTS = AlertSettings(webhook_secret="s", webhook_hosts=("127.0.0.1",))


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(200)
        self.send_header("ETag", '"e"')
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    do_POST = do_PUT = do_GET  # noqa: N815

    def log_message(self, *_):
        pass


def certificate(name, key, signer, *, authority):
    """A certificate of a name's key, by the signer's; for 127.0.0.1 where it is no authority."""
    who = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    own = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "own")])
    now = datetime.now(UTC) - timedelta(hours=1)
    made = x509.CertificateBuilder().subject_name(who).issuer_name(own).public_key(key.public_key())
    made = made.serial_number(x509.random_serial_number()).not_valid_before(
        now - timedelta(hours=1)
    )
    made = made.not_valid_after(now + timedelta(days=1))
    basic = x509.BasicConstraints(ca=authority, path_length=None)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = made.add_extension(basic, critical=True).add_extension(address, critical=False)
    return made.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """A folder with an authority, and with a server's certificate by it and its key."""
    own, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    folder = tmp_path_factory.mktemp("authority")
    (folder / "own.crt").write_bytes(certificate("own", own, own, authority=True))
    (folder / "server.crt").write_bytes(certificate("server", key, own, authority=False))
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (folder / "server.key").write_bytes(key.private_bytes(*form, serialization.NoEncryption()))
    return folder


@pytest.fixture
def server(authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "server.crt", authority / "server.key")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        made.socket = context.wrap_socket(made.socket, server_side=True)
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"https://127.0.0.1:{made.server_port}"
        made.shutdown()
        thread.join()


def ask(server):
    with new_session(repeats=False) as session:
        return exchange(session, "GET", server, 10).status


def store(server):
    put_s3(S3Access(f"{server}/bucket/p", "id", "secret"), "name", b"x", "text/plain")


def hook(server):
    send_webhook(ALERTS, server, {}, "d-1", 1)


class Inbox:
    async def handle_DATA(self, server, session, envelope):  # noqa: N802  # aiosmtpd's name
        assert session.ssl is not None or server.transport.get_extra_info("sslcontext")
        return "250 OK"


@contextmanager
def mailbox(authority, port, kind):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "server.crt", authority / "server.key")
    options = {"ssl_context": context}
    if kind == "smtp":
        options = {"tls_context": context, "require_starttls": True}
    controller = Controller(Inbox(), hostname="127.0.0.1", port=port, **options)
    controller.start()
    try:
        yield AlertSettings(smtp_url=f"{kind}://127.0.0.1:{port}", mail_from="a@b.example")
    finally:
        controller.stop()


@pytest.mark.parametrize("kind", ["smtp", "smtps"])  # the first by STARTTLS
def test_mail_goes_by_it_too(authority, free_tcp_port, monkeypatch, kind):
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with mailbox(authority, free_tcp_port, kind) as alerts:
        letter = (alerts, "x@y.example", "subject", "text", "d-1", datetime.now(UTC))
        with pytest.raises(SendError, match="an authority of your own goes into SSL_CERT_FILE"):
            send_mail(*letter)
        monkeypatch.setenv("SSL_CERT_FILE", str(authority / "own.crt"))
        send_mail(*letter)


@pytest.mark.parametrize("send", [ask, store, hook])
def test_one_variable_names_the_authorities_of_every_connection(
    server, authority, monkeypatch, send
):
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises((Unanswered, S3Error, SendError)) as refused:
        send(server)
    if send is not store:  # its library says no more than that it could not send
        assert "an authority of your own goes into SSL_CERT_FILE" in str(refused.value)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority / "own.crt"))
    assert send(server) in (None, 200)


def test_the_file_of_authorities_wins_over_the_one_of_requests(authority, server, monkeypatch):
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", ssl.get_default_verify_paths().openssl_cafile)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority / "own.crt"))
    with new_session() as session:
        assert exchange(session, "GET", server, 5.0).status == 200


@pytest.mark.parametrize(
    ("variables", "words"),
    {
        (("SSL_CERT_FILE", "/absent"),): "no file of authorities where SSL_CERT_FILE or",
        (("REQUESTS_CA_BUNDLE", "/absent"),): "no file of authorities where SSL_CERT_FILE or",
        (("HTTPS_PROXY", "http://u:S3cret@127.0.0.1:9"),): "Connection refused, by the proxy in",
        (("HTTPS_PROXY", ":S3cret"),): "or that of the proxy in the environment, is not valid",
    }.items(),
)
def test_what_stops_a_request_is_named_by_its_variable(variables, words, monkeypatch):
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables:
        monkeypatch.setenv(name, value)
    with new_session(repeats=False) as session, pytest.raises(Unanswered) as unanswered:
        exchange(session, "GET", "https://gramwatt.invalid", 5.0)
    assert words in str(unanswered.value)
    assert "S3cret" not in str(unanswered.value)


def test_sign_in_says_which_variable_names_it(server, monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with pytest.raises(LoginError, match="an authority of your own goes into SSL_CERT_FILE"):
        oidc._described(server)


def test_sign_in_asks_by_it_too(authority, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(authority / "own.crt"))
    session = oidc._client(OidcConfig(issuer="https://id.example", client_id="c"), "https://x")
    assert session.verify == str(authority / "own.crt")
