"""`gramwatt admin key` and `gramwatt serve --link` as a person types them."""

import ast
import json
import os
import re
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote

import pytest

from gramwatt.collectors.settings import keys as key_file
from gramwatt.collectors.settings.keys import ensure_home_key, home_key, home_key_for
from gramwatt.service import cli
from gramwatt.service.access import audit
from gramwatt.service.app import create_app
from gramwatt.service.config import from_environment
from gramwatt.service.container import Service
from gramwatt.service.scopes import SCOPES
from tests.service.cli.command import gramwatt
from tests.service.keyed import NO_KEY, bearer, client_of


def test_a_key_is_made_listed_used_and_revoked(home):
    nothing = "no key; make one: gramwatt admin key create NAME --scope ingest\n"
    assert gramwatt("admin", "key", "list") == (0, nothing, "")
    made = (
        "admin",
        "key",
        "create",
        "ci",
        "--scope",
        "ingest",
        "--project",
        "vision",
        "--expires",
        "90d",
    )
    code, out, err = gramwatt(*made)
    assert code == 0
    assert out.startswith("gw_")
    assert out.count("\n") == 1
    assert err.startswith("key ci (ingest of vision until 20")
    key = out.split()[-1]
    listed = gramwatt("admin", "key", "list")[1]
    assert listed.split() == [
        *("ci", key[:11], "ingest", "vision", "never", "used", "until", listed.split()[-1])
    ]
    assert key not in listed
    client = create_app(Service.open(from_environment())).test_client()
    shown = bearer(key)
    assert client.get("/v1/jobs", headers=shown).status_code == 403
    assert gramwatt("admin", "key", "revoke", "ci") == (0, "revoked ci\n", "")
    assert client.get("/v1/jobs", headers=shown).status_code == 401
    log = json.loads(gramwatt("admin", "log", "--json")[1])["entries"]
    acts = [entry["action"] for entry in log if entry["subject"].startswith("ci")]
    assert acts == ["key-revoked", "key-created"]


def test_wrong_usage_says_what_to_do(home):
    for arguments, code, words in [
        (
            ("create", "ci", "--scope", "write"),
            2,
            "'write' is not one of ingest, read, member, metrics, admin\n",
        ),
        (("create", "a b", "--scope", "read"), 2, "cannot be the name of a key"),
        (("create", "server", "--scope", "read"), 2, "cannot be the name of a key"),
        (("create", "ci", "--scope", "read", "--expires", "soon"), 2, "such as 90d"),
        (("create", "ci", "--scope", "read", "--expires", "0d"), 2, "such as 90d"),
        (("create", "ci", "--scope", "read", "--project", ""), 2, "leave it out for all projects"),
        (("revoke", "none"), 1, "there is no key 'none'; there are none"),
    ]:
        found, out, err = gramwatt("admin", "key", *arguments)
        assert (found, out) == (code, "")
        assert words in err


def test_a_name_is_taken_until_it_is_revoked(home):
    assert gramwatt("admin", "key", "create", "ci", "--scope", "read")[0] == 0
    code, _, err = gramwatt("admin", "key", "create", "ci", "--scope", "read")
    assert (code, "revoke it" in err) == (2, True)


def test_a_link_for_a_browser_works_once(home):
    link = gramwatt("serve", "--link", "--url", "http://localhost")[1].strip()
    client = create_app(Service.open(from_environment())).test_client()
    path = link.removeprefix("http://localhost")
    first = client.get(path, headers=NO_KEY)
    assert first.status_code == 200
    (cookie,) = first.headers.getlist("Set-Cookie")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    assert path.partition("=")[2] not in first.text
    assert client.get("/", headers=NO_KEY).status_code == 200
    other = client.application.test_client()
    assert other.get(path, headers=NO_KEY).status_code == 401
    assert other.get("/", headers=NO_KEY).status_code == 401
    assert (
        client.post("/logout", headers=NO_KEY | {"Sec-Fetch-Site": "same-origin"}).status_code
        == 303
    )
    assert client.get("/", headers=NO_KEY).status_code == 401


def test_the_server_s_own_key_is_this_user_s_alone(home):
    key = ensure_home_key(home)
    assert stat.S_IMODE((home / "server.key").stat().st_mode) == 0o600
    assert ensure_home_key(home) == key
    (home / "server.key").write_text("")
    assert ensure_home_key(home) != key


ENSURE = """
import sys, time
from pathlib import Path
from gramwatt.collectors.settings import keys as key_file
from gramwatt.collectors.settings.keys import ensure_home_key, home_key, home_key_for
folder = Path(sys.argv[1])
while not (folder / "go").exists():
    time.sleep(0.001)
print(ensure_home_key(folder))
"""


@pytest.mark.parametrize("before", [None, "no key"])
def test_of_processes_that_make_a_key_at_once_the_first_wins(home, before):
    for number in range(2):
        folder = home / str(number)
        folder.mkdir(parents=True)
        if before is not None:
            (folder / "server.key").write_text(before)
        line = [sys.executable, "-c", ENSURE, str(folder)]
        racing = [subprocess.Popen(line, stdout=subprocess.PIPE, text=True) for _ in range(3)]
        time.sleep(0.5)  # until they wait for each other
        (folder / "go").touch()
        keys = {process.communicate(timeout=60)[0].strip() for process in racing}
        assert keys == {home_key(folder)}


def test_the_server_s_key_goes_to_this_user_s_server_only(home, tmp_path):
    key = ensure_home_key(home)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        for host in ("127.0.0.1", "localhost"):
            assert home_key_for(home, f"http://{host}:{port}") == key
        for server in (f"http://192.0.2.1:{port}", f"https://127.0.0.1:{port}", "http://x:y"):
            assert home_key_for(home, server) is None
    row = "0: 0100007F:{:04X} 00000000:0000 {} 00000000:00000000 00:00000000 00000000 {} 0 1"
    for state, uid, mine in (("0A", os.getuid(), True), ("0A", 12345, False), ("01", 12345, True)):
        (tmp_path / "tcp").write_text(f"header\n{row.format(port, state, uid)}\n")
        assert key_file._is_mine(port, tmp_path) is mine


@pytest.mark.skipif(os.getuid() != 0, reason="becomes another user")
def test_another_user_of_the_machine_cannot_read_the_key(home):
    ensure_home_key(home)
    tried = subprocess.run(["cat", home / "server.key"], user=65534, capture_output=True, text=True)
    assert tried.returncode != 0
    assert "denied" in tried.stderr


def test_help_and_documents_name_every_scope():
    shown = gramwatt("admin", "key", "create", "--help")[1]
    assert [scope for scope in SCOPES if f"{scope}:" not in shown] == []
    table = (Path(__file__).parents[3] / "docs/access.md").read_text().split("| scope | may |")[1]
    assert re.findall(r"^\| `(\w+)`", table.split("\n\n")[0], re.MULTILINE) == list(SCOPES)


def test_what_others_wrote_is_one_line_of_the_audit_log(home):
    """A caller with a read key cannot write lines that look like entries of somebody else."""
    forged = "a\n2026-11-28T00:00:00Z  signed-in  root  by root from local\x1b[8m\r\x9b2J"
    key = gramwatt("admin", "key", "create", "reader", "--scope", "read", "--project", "p")[
        1
    ].strip()
    service = Service.open(from_environment())
    ask = client_of(service)
    answer = ask.delete(f"/v1/keys/{quote(forged)}", headers=bearer(key))
    assert answer.status_code == 403
    audit.log(service, "exported", forged)
    entries = json.loads(gramwatt("admin", "log", "--json")[1])["entries"]
    shown = gramwatt("admin", "log")[1]
    assert len(shown.splitlines()) == len(entries)
    assert shown.replace("\n", "").isprintable()


def test_commands_print_through_the_function_that_cleans():
    """`print` is for what has no text of others: JSON, files' names, and secrets just made."""
    allowed = {"path", "file", "content", "address", "key.key", "make_key(home)"}
    for source in Path(cli.__file__).parent.glob("*.py"):
        for call in ast.walk(ast.parse(source.read_text())):
            if isinstance(call, ast.Call) and ast.unparse(call.func) in ("print", "typer.echo"):
                printed = ast.unparse(call.args[0]).replace("'", '"')
                assert printed in allowed or printed.startswith("json.dumps("), (
                    source.name,
                    printed,
                )
