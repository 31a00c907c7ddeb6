"""Hosts, addresses and ports in every form in which people and proxies write them."""

import pytest
import sqlalchemy as sa

from gramwatt.service.access.audit import audit_page
from gramwatt.service.access.sessions import new_link
from gramwatt.service.addresses import parse_url
from gramwatt.service.config import ConfigError, from_environment
from tests.service.cli.command import gramwatt
from tests.service.keyed import NO_KEY, client_of


def read(tmp_path, **more):
    names = {f"GRAMWATT_{name}": text for name, text in more.items()}
    return from_environment({"GRAMWATT_HOME": str(tmp_path), **names})


@pytest.mark.parametrize(
    ("setting", "host"),
    [
        ("Gw.Example", "gw.example:8443"),
        ("gw.example:8443", "GW.example"),
        ("gw.example.", "gw.example."),
        ("fd00::1", "[fd00:0::1]:8642"),
        ("[FD00::1]:8642", "[fd00::1]"),
        ("10.0.0.7:8642", "10.0.0.7"),
    ],
)
def test_a_host_is_known_however_it_is_written(light, tmp_path, setting, host):
    client = client_of(light, hosts=read(tmp_path, HOSTS=setting).hosts)
    assert client.get("/v1/jobs", headers={"Host": host}).status_code == 200
    assert client.get("/v1/jobs", headers={"Host": "x.example"}).json["code"] == "untrusted-host"


@pytest.mark.parametrize("text", ["https://gw.example", "*.example", "*", "a/b", "ops:pw@gw"])
@pytest.mark.parametrize("name", ["HOSTS", "WEBHOOK_HOSTS"])
def test_what_is_not_a_host_is_refused_at_the_start(tmp_path, name, text):
    with pytest.raises(ConfigError, match=f"GRAMWATT_{name} has .* not one host") as refused:
        read(tmp_path, **{name: text})
    assert "pw" not in str(refused.value)


@pytest.mark.parametrize("setting", ["10.0.0.7", "::ffff:10.0.0.7", "10.0.0.0/8"])
@pytest.mark.parametrize("peer", ["10.0.0.7", "::ffff:10.0.0.7"])
@pytest.mark.parametrize(
    ("said", "client"),
    [
        ("203.0.113.6", "203.0.113.6"),
        ("203.0.113.6:40001", "203.0.113.6"),
        ("9.9.9.9, [2001:db8::1]:443", "2001:db8::1"),
        ("2001:db8:0::1", "2001:db8::1"),
        ("unknown", "10.0.0.7"),
    ],
)
def test_a_proxy_is_known_on_a_socket_of_both_kinds_and_the_client_has_no_port(
    light, tmp_path, setting, peer, said, client
):
    app = client_of(light, trusted_proxies=read(tmp_path, TRUSTED_PROXIES=setting).trusted_proxies)
    heads = {"X-Forwarded-For": said, "X-Forwarded-Proto": "https"}
    app.delete("/v1/keys/none", headers=heads, environ_base={"REMOTE_ADDR": peer})
    app.get("/v1/keys", headers=heads | NO_KEY, environ_base={"REMOTE_ADDR": peer})
    assert audit_page(light, 1, None).entries[0].address == client


@pytest.mark.parametrize("peer", ["127.0.0.1", ""])
def test_a_port_of_each_connection_makes_no_caller_of_its_own(light, tmp_path, peer):
    """Nor a proxy on a Unix socket, which has no address."""
    proxies = read(tmp_path, TRUSTED_PROXIES="127.0.0.1").trusted_proxies
    app = client_of(light, trusted_proxies=proxies, requests_per_s=0.5)
    there = {"environ_base": {"REMOTE_ADDR": peer}}
    codes = [
        app.get(
            "/v1/jobs", headers=NO_KEY | {"X-Forwarded-For": f"9.9.9.9:{port}"}, **there
        ).status_code
        for port in range(40001, 40008)
    ]
    assert audit_page(light, 1, None).entries[0].address == "9.9.9.9"
    assert codes == [401] * 5 + [429] * 2


def test_pages_under_a_path_are_refused_where_they_would_be_broken(light, tmp_path):
    proxies = read(tmp_path, TRUSTED_PROXIES="127.0.0.1").trusted_proxies
    app = client_of(light, trusted_proxies=proxies)
    under = {"X-Forwarded-Prefix": "/gramwatt"}
    assert "host name of their own" in app.get("/projects", headers=under).text
    assert app.get("/v1/jobs", headers=under).status_code == 200
    code, out, err = gramwatt("serve", "--link", "--url", "http://127.0.0.1:8642/gramwatt")
    assert (code, out) == (2, "")
    assert "host name of their own" in err


def test_a_button_behind_a_proxy_that_drops_the_port_says_what_to_pass(light):
    client = client_of(light)
    client.get(f"/login?token={new_link(light, 'ada')}", headers=NO_KEY)
    for origin, says in (("http://localhost:18083", True), ("http://evil.example", False)):
        answer = client.delete("/v1/keys/a", headers=NO_KEY | {"Origin": origin})
        assert (answer.status_code, "$http_host" in answer.json["detail"]) == (403, says)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("postgresql+psycopg2://u:p%2Fw@h/d", ["h"]),
        ("postgres+asyncpg://u@h:5433/d", ["h:5433"]),
        ("postgresql://u:p%40w@h1:5432,h2:5433/d?target_session_attrs=read-write", 2),
        ("postgresql://h1,h2/d", 2),
    ],
)
def test_addresses_of_the_tools_beside_are_understood(text, hosts):
    url = parse_url(text)
    assert url.drivername == "postgresql+psycopg"
    _, named = sa.create_engine(url).dialect.create_connect_args(url)
    assert named["dbname"] == "d"
    if hosts == 2:
        assert (named["host"], url.username) == ("h1,h2", "u" if "u" in text[:14] else None)


@pytest.mark.parametrize(
    "text",
    ["postgresql://u@h:S3cret/d", "postgresql://u:a@S3cr#@h/d", "postgresql://u:S@S3cr/x@h/d", "x"],
)
def test_an_address_that_is_not_a_database_s_is_one_sentence_without_its_password(tmp_path, text):
    with pytest.raises(ConfigError, match="GRAMWATT_DATABASE_URL: not a database address") as bad:
        read(tmp_path, DATABASE_URL=text)
    assert "S3cr" not in str(bad.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("MAIL_FROM", "gramwatt"),
        ("MAIL_FROM", "a@b, c@d"),
        ("MAIL_FROM", "a@b,"),
        ("MAIL_FROM", "Carbon Team a@b"),
        ("REPORT_EMAIL", "ops@example.org carbon"),
        ("OIDC_ISSUER", "https://[::1"),
        ("EIA_URL", "https://host:port/"),
        ("REPORT_S3_URL", "https://host:port/bucket"),
    ],
)
def test_an_address_that_could_not_be_used_is_refused_at_the_start(tmp_path, name, text):
    with pytest.raises(ConfigError, match=f"GRAMWATT_{name}="):
        read(tmp_path, OIDC_CLIENT_ID="c", **{name: text})
