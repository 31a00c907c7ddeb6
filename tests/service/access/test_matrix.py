"""Every route that the application has, asked by every kind of caller."""

import re

import pytest
from flask import Flask

from gramwatt.service.access.keys import create_key
from gramwatt.service.access.sessions import open_session
from gramwatt.service.app import create_app
from gramwatt.service.budgets import set_budget
from gramwatt.service.common.requests import NewBudget
from gramwatt.service.container import Caller
from gramwatt.service.scopes import INCLUDED
from tests.service.keyed import NO_KEY, add, bearer

RULES = {
    "anybody": """
GET /healthz
GET /readyz
GET /login
GET /login/callback""",
    "ingest": """
GET /v1/budgets/check
PUT /v1/jobs/<job_id>
POST /v1/jobs/<job_id>/records""",
    "ingest read": """
GET /v1/intensity/<zone>
POST /v1/plans""",
    "read": """
GET /
GET /budgets
GET /catalog
GET /compare
GET /docs
GET /example
GET /glossary
GET /intensity/<zone>
GET /jobs
GET /jobs/<job_id>
GET /jobs/<job_id>/live
GET /models
GET /months
GET /months/<month_name>
GET /openapi.json
GET /planner
GET /projects
GET /running
GET /static/<path:filename>
GET /v1/badges/<path:project>.svg
GET /v1/budgets
GET /v1/catalog/<kind>
GET /v1/comparisons
GET /v1/comparisons.<form>
GET /v1/jobs
GET /v1/jobs/<job_id>
GET /v1/jobs/<job_id>/intervals
GET /v1/jobs/<job_id>/report
GET /v1/jobs/<job_id>/report.<form>
GET /v1/jobs/<job_id>/revisions
GET /v1/jobs/<job_id>/suggestions
GET /v1/outbox
GET /v1/projects
GET /v1/reports/monthly/<month>
GET /v1/reports/monthly/<month>.<form>
GET /v1/reports/monthly/<month>/changes
GET /v1/reports/monthly/<month>/jobs
GET /v1/reports/yearly/<year>
GET /v1/reports/yearly/<year>.<form>
GET /years/<year_name>
POST /logout
POST /planner/plan
POST /v1/estimates
POST /v1/suggestions""",
    "admin": """
DELETE /v1/budgets
DELETE /v1/jobs/<job_id>
PATCH /v1/jobs/<job_id>
POST /budgets/set
POST /v1/budgets
POST /v1/jobs/<job_id>/rescore
POST /v1/projects
POST /v1/reports/monthly/<month>""",
    "read of every project": """
GET /schedules
GET /v1/schedules""",
    "metrics read of every project": """
GET /metrics""",
    "admin of every project": """
DELETE /v1/people/<path:name>
DELETE /v1/projects/<path:project>
DELETE /v1/keys/<name>
DELETE /v1/sessions
DELETE /v1/sessions/<session>
GET /keys
GET /settings
GET /v1/audit
GET /v1/keys
GET /v1/sessions
POST /keys/new
POST /keys/revoke
POST /sessions/end
POST /v1/intensity
POST /v1/keys
POST /v1/keys/<name>/rotate""",
}
"""Who may call what: the scopes of which a caller needs one; an admin may do everything."""
NEEDED = {
    line: words for words, listed in RULES.items() for line in listed.split("\n") if line.strip()
}
VALUES = {
    **{
        "month": "2026-05",
        "month_name": "2026-05",
        "year": "2026",
        "year_name": "2026",
        "form": "html",
        "zone": "DE",
    },
    **{"project": "team-bravo", "path:project": "team-bravo", "path:filename": "no.css"},
    "path:name": "nobody",
    **{"kind": "regions", "name": "nobody", "session": "0" * 12},
}
BRAVO, NEVER = "73190000", "73190001"
"""The job of the other team, and one that never was: alpha must not tell them apart."""


def operations(app: Flask) -> list[str]:
    found = [
        f"{method} {rule.rule}"
        for rule in app.url_map.iter_rules()
        for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"})
    ]
    return sorted(found)


def ask(client, operation, headers, job_id=BRAVO):
    method, rule = operation.split(" ")
    values = VALUES | {"job_id": job_id}
    address = re.sub(r"<([^>]*)>", lambda found: values[found[1]], rule)
    declared = {"project": "team-alpha"} if method == "PUT" else {}
    body = {"json": declared} if method in ("POST", "PUT", "PATCH") else {}
    return client.open(address, method=method, headers=headers, **body)


@pytest.fixture
def app(light):
    """An application with a job of team-alpha, and one of team-bravo that alpha must not see."""
    for team, job_id in (("alpha", "alpha-job"), ("bravo", BRAVO)):
        about = {"project": f"team-{team}", "name": f"{team}-name", "model_id": f"{team}-model"}
        add(light, job_id, **about)
        set_budget(light, NewBudget(project=f"team-{team}", limit_kg=1.0), by="u")
    return create_app(service=light)


def test_every_route_has_a_rule_here(app):
    assert operations(app) == sorted(NEEDED)


@pytest.mark.parametrize("project", ["team-alpha", None])
@pytest.mark.parametrize("scope", ["ingest", "metrics", "read", "member", "admin"])
def test_who_may_call_each_route_and_what_they_learn(app, light, scope, project):
    projects = [project] if project else []
    key = bearer(create_key(light, "k", scope, projects).key)
    client, wrong, told = app.test_client(), {}, {}
    # What changes something comes last: it may make a job of both names.
    for operation in sorted(NEEDED, key=lambda one: (not one.startswith("GET"), one)):
        needed = NEEDED[operation]
        allowed = needed == "anybody" or (
            (scope == "admin" or not {scope, *INCLUDED.get(scope, ())}.isdisjoint(needed.split()))
            and (project is None or "every project" not in needed)
        )
        needs_key = needed != "anybody"
        answer = ask(client, operation, key)
        if (answer.status_code == 403) is allowed or answer.status_code >= 500:
            wrong[operation] = answer.status_code
        private = re.search("private|no-store", answer.headers.get("Cache-Control", ""))
        if operation.startswith("GET ") and answer.status_code == 200 and needs_key > bool(private):
            wrong[operation] = "kept by others"
        text = answer.text.replace("team-bravo", "") if "project>" in operation else answer.text
        if project and "bravo" in text:
            told[operation] = answer.text
        if project and "<job_id>" in operation:
            other = ask(client, operation, key, NEVER)
            if answer.text.replace(BRAVO, NEVER) != other.text:
                told[operation] = answer.text
    assert (wrong, told) == ({}, {})


def test_a_session_of_one_project_sees_what_a_key_of_it_sees(app, light):
    cookie = open_session(light, Caller("ada", scope="read", projects=frozenset({"team-alpha"})))
    key = create_key(light, "k", "read", ["team-alpha"]).key
    browser, nobody = app.test_client(), app.test_client()
    browser.set_cookie("gramwatt-session", cookie)
    for operation in NEEDED:
        if operation.startswith("GET /v1/") or operation in ("GET /jobs/<job_id>/live",):
            seen = ask(browser, operation, NO_KEY)
            by_key = ask(nobody, operation, bearer(key))
            assert (seen.status_code, seen.headers.get("ETag")) == (
                by_key.status_code,
                by_key.headers.get("ETag"),
            ), operation
