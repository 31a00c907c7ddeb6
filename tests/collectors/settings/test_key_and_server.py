"""A key goes to the server it belongs to: a cloned repository gets neither key nor journal."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from gramwatt.collectors.client.api import Client
from gramwatt.collectors.client.errors import ApiError
from gramwatt.collectors.settings import config as settings
from gramwatt.collectors.settings import keys
from gramwatt.collectors.settings.http import new_session
from gramwatt.collectors.settings.keys import ensure_home_key, home_key_for
from gramwatt.service.imports.prometheus import Prometheus
from gramwatt.service.providers.base import ProviderError
from gramwatt.service.providers.http import Http
from tests.answering import answering, send

KEY = "gw_ci_secret"
GRAMWATT = [sys.executable, "-m", "gramwatt"]


class Recorder:
    """A server on this machine that takes nothing, and keeps the keys that it was sent."""

    def __init__(self) -> None:
        self.keys: list[str | None] = []
        self.url = ""

    def act(self, handler: BaseHTTPRequestHandler) -> None:
        self.keys.append(handler.headers.get("Authorization"))
        handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        send(handler, b"{}", 404)


def _recorder():
    recorder = Recorder()
    with answering(recorder.act) as recorder.url:
        yield recorder


recorder = pytest.fixture(_recorder, name="recorder")
proxy = pytest.fixture(_recorder, name="proxy")
"""A proxy that the environment may name."""


@pytest.fixture
def environ(tmp_path):
    """A user with a home, a configuration folder and a repository, all empty."""
    (tmp_path / "repository" / ".git").mkdir(parents=True)
    (tmp_path / "config" / "gramwatt").mkdir(parents=True)
    names = {k: v for k, v in os.environ.items() if not k.startswith(("GRAMWATT_", "SLURM_"))}
    return names | {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "GRAMWATT_HOME": str(tmp_path / "home"),
        "GRAMWATT_HOST_SOURCE": "model",
        "GRAMWATT_ZONE": "FR",
    }


def user(tmp_path: Path, text: str) -> None:
    (tmp_path / "config" / "gramwatt" / "config.toml").write_text(text)


def repository(tmp_path: Path, text: str) -> None:
    (tmp_path / "repository" / "gramwatt.toml").write_text(text)


def ran(environ: dict[str, str], tmp_path: Path, *words: str) -> tuple[int, list[str]]:
    """Exit code of a job that ends with 7, and the lines on its stderr."""
    line = [*GRAMWATT, "run", *words, "--", "sh", "-c", "exit 7"]
    where = tmp_path / "repository"
    done = subprocess.run(line, env=environ, cwd=where, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stderr.splitlines()


def test_a_repository_that_names_a_server_gets_neither_key_nor_journal(environ, tmp_path, recorder):
    repository(tmp_path, f'server = "{recorder.url}"')
    user(tmp_path, f'api_key = "{KEY}"')
    code, lines = ran(environ, tmp_path)
    assert code == 7
    said = [line for line in lines if "server is ignored" in line]
    assert len(said) == 1, lines
    assert f"set GRAMWATT_SERVER={recorder.url} beside GRAMWATT_API_KEY" in said[0]
    assert KEY not in "\n".join(lines)
    for words in (["sync"], ["doctor"]):
        subprocess.run(
            [*GRAMWATT, *words], env=environ, cwd=tmp_path / "repository", capture_output=True
        )
    assert recorder.keys == []


def test_a_server_of_the_environment_beside_the_key_is_sent_both(environ, tmp_path, recorder):
    repository(tmp_path, 'server = "https://elsewhere.invalid"')
    environ |= {"GRAMWATT_SERVER": recorder.url, "GRAMWATT_API_KEY": KEY}
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password mine\n")
    (tmp_path / ".netrc").chmod(0o600)
    assert ran(environ, tmp_path)[0] == 7
    assert set(recorder.keys) == {f"Bearer {KEY}"}


def test_plain_http_beyond_this_machine_is_refused_before_a_connection(environ, tmp_path):
    repository(tmp_path, f'api_key = "{KEY}"\nallow_http = true\n')
    environ |= {"GRAMWATT_SERVER": "http://server.invalid", "GRAMWATT_API_KEY": KEY}
    code, lines = ran(environ, tmp_path)
    assert code == 7
    assert sum("is plain http" in line and "GRAMWATT_ALLOW_HTTP=1" in line for line in lines) == 1
    assert not any("server.invalid/jobs" in line for line in lines)


def found(
    environ: dict[str, str], tmp_path: Path, **args: str
) -> tuple[str | None, str | None, str]:
    config = settings.resolve(args, environ, tmp_path / "repository")
    return config.server, config.api_key, " ".join(note.message for note in config.notices)


def test_the_places_of_key_and_server_decide(environ, tmp_path):
    a, b = "https://a.example", "https://b.example"
    user(tmp_path, f'server = "{a}"\napi_key = "{KEY}"')
    assert found(environ, tmp_path) == (a, KEY, "")
    assert found({**environ, "GRAMWATT_SERVER": b}, tmp_path)[:2] == (b, KEY)
    assert found(environ, tmp_path, server=b)[:2] == (b, KEY)
    for text in (b, "https://b.example\\\\@a.example", "https://b.example/@a.example"):
        repository(tmp_path, f'server = "{text}"')
        server, _, said = found(environ, tmp_path)
        assert server in (None, a), text
        assert "server is ignored" in said
    user(tmp_path, "")
    repository(tmp_path, f'server = "{b}"\napi_key = "{KEY}"')
    assert found(environ, tmp_path) == (b, KEY, "")
    repository(tmp_path, f'server = "{b}"')
    assert found(environ, tmp_path)[:2] == (None, None)
    plain = {**environ, "GRAMWATT_SERVER": "http://a.example", "GRAMWATT_ALLOW_HTTP": "1"}
    assert found(plain, tmp_path)[0] == "http://a.example"


def test_netrc_does_not_replace_the_key(monkeypatch, tmp_path, recorder):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password mine\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    address = recorder.url.replace("//", "//me:word@")
    for key, url in ((KEY, recorder.url), (None, recorder.url), (None, address)):
        new_session(key, repeats=False).get(url, timeout=5)
    assert recorder.keys == [f"Bearer {KEY}", None, "Basic bWU6d29yZA=="]


WITHOUT_SERVICE = """
from gramwatt.collectors.settings import installation
installation.SERVICE_PACKAGES = ("no_such_package",)
from gramwatt.__main__ import main
main()
"""


def test_a_key_that_was_stored_for_a_server_goes_there_alone(environ, tmp_path, recorder):
    line = [sys.executable, "-c", WITHOUT_SERVICE, "login", recorder.url]
    stored = subprocess.run(line, env=environ, input=f"{KEY}\n", capture_output=True, text=True)
    file = tmp_path / "config" / "gramwatt" / "keys.toml"
    assert (stored.returncode, stored.stdout) == (0, f"stored in {file}\n"), stored.stderr
    assert (file.stat().st_mode & 0o777, recorder.keys) == (0o600, [f"Bearer {KEY}"])
    environ["GRAMWATT_API_KEY"] = "gw_of_another_server"
    repository(tmp_path, f'server = "{recorder.url}"')
    assert ran(environ, tmp_path)[0] == 7
    assert set(recorder.keys) == {f"Bearer {KEY}"}
    other = settings.resolve(environ=environ | {"GRAMWATT_SERVER": "https://elsewhere.invalid"})
    assert other.api_key == "gw_of_another_server"
    refused = subprocess.run(
        [*GRAMWATT, "login", "http://elsewhere.invalid"],
        **{"env": environ, "input": KEY, "capture_output": True, "text": True},
    )
    assert (refused.returncode, "GRAMWATT_ALLOW_HTTP=1" in refused.stderr) == (2, True)


@pytest.mark.parametrize(
    ("status", "body", "code", "text"),
    [
        (200, b"<html>", 1, "answers 200, not as gramwatt does; check the address; nothing was"),
        (302, b"", 1, "answers 302, not as gramwatt does; check the address; nothing was"),
        (401, b"{}", 1, "does not know this key; nothing was stored"),
        (403, b"{}", 0, ""),
        (502, b"<html>", 0, "answers 502 now: the key was not tried"),
    ],
)
def test_login_stores_no_key_of_what_is_not_the_server(environ, status, body, code, text):
    with answering(lambda handler: send(handler, body, status)) as url:
        line = [*GRAMWATT, "login", url]
        tried = subprocess.run(line, env=environ, input=KEY, capture_output=True, text=True)
    assert (tried.returncode, text in tried.stderr) == (code, True), tried.stderr
    assert ("stored in" in tried.stdout) == (code == 0)


@pytest.mark.parametrize("key", [f"{KEY}\n", f" {KEY}\r\n"])
def test_white_space_around_a_key_is_not_of_it(environ, key):
    assert settings.resolve(environ=environ | {"GRAMWATT_API_KEY": key}).api_key == KEY


@pytest.mark.parametrize("key", [f"{KEY[:9]}\n{KEY[9:]}", f"{KEY} {KEY}", f"{KEY}é", KEY * 50])
def test_what_is_not_a_key_is_ignored_and_not_repeated(environ, tmp_path, key):
    config = settings.resolve(environ=environ | {"GRAMWATT_API_KEY": key})
    (notice,) = config.notices
    assert (config.api_key, "not a key: one word" in notice.message) == (None, True)
    assert KEY[9:] not in notice.message
    line = [*GRAMWATT, "login", "http://127.0.0.1:9"]
    refused = subprocess.run(
        line, env=environ, input=f"{KEY} {KEY}", capture_output=True, text=True
    )
    assert (refused.returncode, "not a key" in refused.stderr) == (2, True), refused.stderr


def proxied(proxy) -> dict[str, str]:
    """Return variables that send everything through a proxy."""
    names = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "ALL_PROXY")
    return dict.fromkeys(names, proxy.url)


COMMANDS = (
    ("run", "--", "true"),
    ("run", "--when-greenest", "--deadline", "1h", "--", "true"),
    ("sync",),
    ("doctor",),
    ("top", "--json", "--server"),
)


def test_a_server_of_this_machine_is_never_asked_through_a_proxy(
    environ, tmp_path, recorder, proxy
):
    key, url = ensure_home_key(tmp_path / "home"), recorder.url.replace("127.0.0.1", "localhost")
    environ |= proxied(proxy) | {"GRAMWATT_SERVER": url}
    for words in COMMANDS:
        line = [*GRAMWATT, *words, *([url] if words[-1] == "--server" else [])]
        subprocess.run(line, env=environ, cwd=tmp_path / "repository", capture_output=True)
        seen = recorder.keys.copy()
        assert (proxy.keys, words, seen != []) == ([], words, True)
        recorder.keys.clear()
        assert words == ("doctor",) or f"Bearer {key}" in seen, words


@pytest.mark.parametrize(
    "host", ["127.1", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "LOCALHOST", "gw.localhost"]
)
def test_every_way_to_write_a_loopback_address_is_direct(monkeypatch, recorder, proxy, host):
    """The proxy would have been asked for a name that only looks like another machine's."""
    for variable, value in proxied(proxy).items():
        monkeypatch.setenv(variable, value)
    address = recorder.url.replace("127.0.0.1", host)
    with Client(address, KEY, timeout_s=5) as client, suppress(ApiError):
        client.keys()
    assert proxy.keys == []


@pytest.mark.parametrize("host", ["128.1", "localhost.example", "10.0.0.1", "[::ffff:10.0.0.1]"])
def test_another_machine_is_not_taken_for_this_one(host):
    assert not keys.is_loopback(f"http://{host}:8642")


def test_no_client_asks_this_machine_through_a_proxy(monkeypatch, recorder, proxy):
    for variable, value in proxied(proxy).items():
        monkeypatch.setenv(variable, value)
    with Client(recorder.url, KEY) as client, pytest.raises(ApiError):
        client.keys()
    with pytest.raises(ProviderError):
        Http(recorder.url).ask("x", bytes)
    with pytest.raises(Exception, match="refuses"):
        list(Prometheus(recorder.url, KEY).chunks("m", 0, 60))
    assert (proxy.keys, len(recorder.keys)) == ([], 3)
    with pytest.raises(Exception, match="404"):
        new_session(None, repeats=False).get("http://elsewhere.invalid/").raise_for_status()
    assert proxy.keys == [None]  # any other address still goes by the proxy


def test_a_home_s_key_is_not_sent_once_another_user_listens_there(monkeypatch, tmp_path, recorder):
    key = ensure_home_key(tmp_path)
    session = new_session(home_key_for(tmp_path, recorder.url), repeats=False)
    session.get(recorder.url)
    monkeypatch.setattr(keys, "_is_mine", lambda _: False)
    session.get(recorder.url)
    assert recorder.keys == [f"Bearer {key}", None]
