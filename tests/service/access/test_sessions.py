"""Sessions of browsers: who is signed in, for how long, and how that ends."""

import json
from datetime import timedelta

import pytest

from gramwatt.collectors.settings.keys import ensure_home_key
from gramwatt.service.app import create_app
from gramwatt.service.config import from_environment
from gramwatt.service.container import Service
from gramwatt.service.jobs.ingest import ingest
from tests.journals import journal, lines
from tests.service.cli.command import gramwatt
from tests.service.keyed import NO_KEY, client_of, with_settings


@pytest.fixture
def app(home):
    gramwatt("admin", "key", "list")  # makes the tables
    return create_app(Service.open(from_environment()))


def signed_in(app, *options):
    """A browser that has used a link of `gramwatt serve --link`."""
    link = gramwatt("serve", "--link", "--url", "http://localhost", *options)[1].strip()
    browser = app.test_client()
    assert browser.get(link.removeprefix("http://localhost"), headers=NO_KEY).status_code == 200
    return browser


def is_in(browser):
    return browser.get("/v1/jobs", headers=NO_KEY).status_code == 200


def test_sessions_are_listed_and_ended_by_command_route_and_page(app):
    browsers = [signed_in(app) for _ in range(4)]
    admin = app.test_client()
    listed = json.loads(gramwatt("admin", "session", "list", "--json")[1])["sessions"]
    assert listed == admin.get("/v1/sessions").json["sessions"]
    assert [(row["scope"], row["projects"], row["address"]) for row in listed] == [
        ("admin", [], "127.0.0.1")
    ] * 4
    (person,) = {row["person"] for row in listed}
    # Newest first.
    assert gramwatt("admin", "session", "end", listed[3]["id"]) == (0, "ended 1 session\n", "")
    assert admin.delete(f"/v1/sessions/{listed[2]['id']}").json == {"ended": 1}
    ended = admin.post("/sessions/end", data={"session": listed[1]["id"]})
    assert ended.headers["Location"] == "/keys#sessions"
    assert [is_in(browser) for browser in browsers] == [False, False, False, True]
    assert listed[0]["id"] in admin.get("/keys").text
    assert admin.delete(f"/v1/sessions?person={person}").json == {"ended": 1}
    assert not is_in(browsers[3])
    assert gramwatt("admin", "session", "list")[1] == "nobody is signed in\n"
    code, _, err = gramwatt("admin", "session", "end", "--person", person)
    assert (code, "there is no session of" in err) == (1, True)
    assert gramwatt("admin", "session", "end")[0] == 2
    entries = admin.get("/v1/audit").json["entries"]
    acts = [entry["action"] for entry in entries if entry["action"] != "refused"]
    assert acts[::-1] == ["key-created"] + ["signed-in"] * 4 + ["session-ended"] * 4


def test_ending_the_sessions_of_a_person_also_ends_links_nobody_used(app):
    link = gramwatt("serve", "--link", "--url", "http://localhost")[1].strip()
    browser = signed_in(app)
    (row,) = app.test_client().get("/v1/sessions").json["sessions"]
    assert gramwatt("admin", "session", "end", "--person", row["person"])[1] == "ended 2 sessions\n"
    used = app.test_client().get(link.removeprefix("http://localhost"), headers=NO_KEY)
    assert (used.status_code, is_in(browser)) == (401, False)


def test_signing_out_everywhere_ends_every_session_of_the_person(app):
    here, elsewhere = signed_in(app), signed_in(app)
    same_site = NO_KEY | {"Sec-Fetch-Site": "same-origin"}
    assert 'name="everywhere"' in here.get("/", headers=NO_KEY).text
    left = here.post("/logout", data={"everywhere": "1"}, headers=same_site)
    assert (left.status_code, is_in(here), is_in(elsewhere)) == (303, False, False)


def test_another_key_of_the_server_ends_the_sessions_of_the_one_before(app, home):
    key = ensure_home_key(home)
    browser = signed_in(app)
    assert is_in(browser)
    (home / "server.key").unlink()
    assert not is_in(browser)
    assert ensure_home_key(home) != key
    assert not is_in(browser)
    assert app.test_client().get("/v1/sessions").json["sessions"] == []
    assert is_in(signed_in(app))


def test_how_long_a_session_lasts_is_a_setting(light, clock, monkeypatch):
    monkeypatch.setenv("GRAMWATT_SESSION_HOURS", "0.5")
    lasts = from_environment().session_lasts
    assert lasts == timedelta(minutes=30)
    from gramwatt.service.access.sessions import new_link

    short = with_settings(light, session_lasts=lasts)
    browser = client_of(short)
    answer = browser.get(f"/login?token={new_link(short, 'ada')}", headers=NO_KEY)
    assert "Max-Age=1800" in answer.headers["Set-Cookie"]
    clock.turn(minutes=29)
    assert is_in(browser)
    clock.turn(minutes=1)
    assert not is_in(browser)


def test_a_link_of_a_project_shows_that_project_alone(app):
    for project in "AB":
        records = journal(f"job-{project}", project=project, name=f"of-{project}", model_id="m-1")
        ingest(Service.open(from_environment()), f"job-{project}", lines(records))
    browser = signed_in(app, "--project", "A")
    listed = browser.get("/v1/jobs?q=of-", headers=NO_KEY).json["jobs"]
    assert [job["job_id"] for job in listed] == ["job-A"]
    for address in ("/", "/jobs?q=of-", "/projects", "/models", "/months"):
        shown = browser.get(address, headers=NO_KEY)
        assert (shown.status_code, "of-B" in shown.text) == (200, False), address
    for address in ("/jobs/job-B", "/v1/jobs/job-B/report.pdf"):
        assert browser.get(address, headers=NO_KEY).status_code == 404, address
    assert browser.get("/keys", headers=NO_KEY).status_code == 403
    code, _, err = gramwatt("serve", "--link", "--project", "")
    assert (code, "cannot be empty" in err) == (2, True)


def test_refused_sign_ins_are_counted_and_sign_outs_are_entries(app):
    nobody, admin = app.test_client(), app.test_client()
    browser = signed_in(app)
    for _ in range(3):
        assert nobody.get("/login?token=wrong", headers=NO_KEY).status_code == 401
    left = browser.post("/logout", headers=NO_KEY | {"Sec-Fetch-Site": "same-origin"})
    assert (left.status_code, is_in(browser)) == (303, False)
    entries = admin.get("/v1/audit").json["entries"]
    kinds = [(e["action"], e["subject"]) for e in entries if "sign" in e["action"]]
    assert [action for action, _ in kinds] == ["signed-out", "sign-in-refused", "signed-in"]
    assert kinds[1][1] == "GET /login: 401"
    counted = [
        line
        for line in admin.get("/metrics").text.splitlines()
        if "/login" in line and "401" in line
    ]
    assert counted[0].endswith(" 3.0")
