"""Whatever others wrote, a line of a command is one line, and its figures stay where they are."""

from gramwatt.collectors.cli.options import show
from gramwatt.sci.figures.printable import on_terminal
from gramwatt.service.access.keys import create_key
from tests.service.cli.command import gramwatt
from tests.service.keyed import add, bearer, client_of

NAME = "مشروع الذكاء"
ISOLATED = f"\u2068{NAME}\u2069"


def test_a_name_from_right_to_left_moves_no_figure_beside_it(client, light):
    add(light, "job-1", name=f"run {NAME}", project=NAME)
    assert on_terminal(f"run {NAME} 14 %") == f"run {ISOLATED} 14 %"
    for path in ("/", "/jobs", "/projects"):
        assert f">{ISOLATED}<" in (text := client.get(path).text) or ISOLATED in text, path


def test_commands_show_every_text_by_one_function(capsys):
    show("a\nb\x1b[8m\u202e", NAME)
    assert capsys.readouterr().out == f"a b [8m\n{ISOLATED}\n"


def test_an_entry_of_the_audit_log_is_one_line_of_the_command(light, monkeypatch):
    monkeypatch.setenv("GRAMWATT_HOME", str(light.config.home))
    key = create_key(light, "reader", "read", ["p"]).key
    forged = "a%0A2026-11-28T00:00:00Z%20%20signed-in%20%20root%20%20by%20root%1b%5b8m"
    head = bearer(key)
    client_of(light).delete(f"/v1/keys/{forged}", headers=head)
    code, out, _ = gramwatt("admin", "log")
    assert code == 0
    acts = [line.split("  ")[1] for line in out.splitlines()]
    assert acts == ["refused", "key-created", "key-created"]  # a client of the tests has one too
    assert "\x1b" not in out
