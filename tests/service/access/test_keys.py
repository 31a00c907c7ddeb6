"""Keys: what each scope may do, whose jobs each key sees, and what is refused without one."""

from datetime import timedelta

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from gramwatt.collectors.settings.identity import bound_id
from gramwatt.service.access.audit import audit_page
from gramwatt.service.access.keys import create_key, revoke_key, rotate_key
from gramwatt.service.api.access import declared
from gramwatt.service.app import create_app
from gramwatt.service.jobs.ingest import ingest
from gramwatt.service.store.access import ApiKey
from gramwatt.service.store.base import Base, way_to_project
from gramwatt.service.store.serving import TaskRun
from gramwatt.service.store.tables import METADATA
from gramwatt.service.tasks.upkeep import delete_old_audit
from tests.journals import journal, lines
from tests.service.keyed import NO_KEY, add, bearer, with_key, with_settings

NEW = bound_id("new", "A")


def code(answer):
    return answer.status_code, answer.json.get("code")


@pytest.fixture
def two(light):
    """A job of project A and one of project B, with one model and one secret name."""
    for project in "AB":
        records = journal(f"job-{project}", project=project, name=f"of-{project}", model_id="m-1")
        ingest(light, f"job-{project}", lines(records))
    return light


def test_every_rule_declares_who_may_call_it(client):
    app = client.application
    found = {rule.endpoint for rule in app.url_map.iter_rules()}
    assert found - declared(app).keys() == set()
    free = {name for name, access in declared(app).items() if not access.scopes}
    entries = {"page.login", "page.callback"}
    assert free == {"service.alive", "service.ready"} | entries


def test_a_rule_that_declares_nothing_answers_nobody(light):
    app = create_app(service=light)
    app.add_url_rule("/forgotten", "forgotten", lambda: "secret")
    assert code(app.test_client().get("/forgotten")) == (403, "forbidden")


def test_nothing_but_health_and_readiness_answers_without_a_key(client):
    for rule in client.application.url_map.iter_rules():
        address = rule.rule.replace("<job_id>", "job-1").replace("<month>", "2026-05")
        for method in sorted(rule.methods):
            answer = client.open(address, method=method, headers=NO_KEY)
            if address in ("/healthz", "/readyz"):
                assert answer.status_code == 200
            else:
                assert answer.status_code == 401, (method, address)
                assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert client.get("/no/such/page", headers=NO_KEY).status_code == 401


def test_a_text_that_is_no_key_is_refused(client):
    for shown in [
        "Bearer",
        "Bearer gw_",
        "Bearer gw_server_",
        "Bearer gw_00000000_x",
        "Bearer \xe9",
        "Basic YTpi",
        "Bearer " + "x" * 5000,
    ]:
        answer = client.get("/v1/jobs", headers={"Authorization": shown})
        assert code(answer) == (401, "unauthorised")


def test_a_key_with_another_secret_is_refused(client, light):
    made = create_key(light, "ci", "read").key
    wrong = made[:-1] + ("A" if made[-1] != "A" else "B")
    assert client.get("/v1/jobs", headers=bearer(made)).status_code == 200
    assert client.get("/v1/jobs", headers=bearer(wrong)).status_code == 401


def test_the_store_keeps_no_key(client, light):
    made = create_key(light, "ci", "read").key
    with light.store.read() as session:
        (row,) = session.scalars(sa.select(ApiKey).where(ApiKey.name == "ci"))
    kept = " ".join(str(getattr(row, column.name)) for column in ApiKey.__table__.c)
    assert made.rpartition("_")[2] not in kept
    assert row.prefix == made.split("_")[1]
    # 32 random bytes are 43 characters of base64.
    assert len(made.split("_", 2)[2]) == 43


@pytest.mark.parametrize(
    ("scope", "allowed"),
    [
        ("ingest", {"send", "plan"}),
        ("read", {"list", "ask", "plan"}),
        ("admin", {"send", "list", "ask", "plan", "change"}),
    ],
)
def test_what_each_scope_may_do(client, light, scope, allowed):
    add(light)
    key = with_key(light, scope, scope)
    asked = {
        "send": client.send("job-1", journal(), headers=key),
        "list": client.get("/v1/jobs", headers=key),
        "ask": client.post("/v1/estimates", json={"energy_kwh": 1, "zone": "FR"}, headers=key),
        "plan": client.post("/v1/plans", json={"hours": 1, "zone": "FR"}, headers=key),
        "change": client.patch("/v1/jobs/job-1", json={"name": "other"}, headers=key),
    }
    assert {name for name, answer in asked.items() if answer.status_code == 200} == allowed
    refused = {code(answer) for name, answer in asked.items() if name not in allowed}
    assert refused <= {(403, "forbidden")}


def test_only_an_admin_of_every_project_has_to_do_with_keys(client, light):
    for key in (with_key(light, "r", "read"), with_key(light, "a", "admin", "A")):
        assert code(client.get("/v1/keys", headers=key)) == (403, "forbidden")
        made = client.post("/v1/keys", json={"name": "n", "scope": "read"}, headers=key)
        assert code(made) == (403, "forbidden")
        assert code(client.get("/v1/audit", headers=key)) == (403, "forbidden")
    bound = with_key(light, "bound", "read", "A")
    assert code(client.get("/metrics", headers=bound)) == (403, "forbidden")


def test_an_empty_list_of_projects_makes_no_key_for_all_of_them(client):
    sent = {"name": "ci", "scope": "read", "projects": []}
    assert code(client.post("/v1/keys", json=sent)) == (422, "invalid")
    assert "ci" not in [row["name"] for row in client.get("/v1/keys").json["keys"]]
    del sent["projects"]
    assert client.post("/v1/keys", json=sent).json["projects"] == []


def test_a_key_lives_from_its_making_to_its_end(client, light, clock):
    made = client.post(
        "/v1/keys", json={"name": "ci", "scope": "read", "projects": ["A"], "expires_days": 90}
    ).json
    assert made["expires_at"] == "2026-08-31T12:00:00.000000Z"  # 2 June + 90 days
    key = bearer(made["key"])
    assert client.get("/v1/jobs", headers=key).status_code == 200
    (row,) = [row for row in client.get("/v1/keys").json["keys"] if row["name"] == "ci"]
    assert row == {name: value for name, value in made.items() if name != "key"} | {
        "last_used_at": "2026-06-02T12:00:00.000000Z"
    }
    clock.turn(days=90)
    assert client.get("/v1/jobs", headers=key).status_code == 401
    again = client.post("/v1/keys", json={"name": "ci", "scope": "read"})
    assert code(again) == (409, "conflict")
    assert client.delete("/v1/keys/ci").json["name"] == "ci"
    assert code(client.delete("/v1/keys/ci")) == (404, "unknown-key")
    second = client.post("/v1/keys", json={"name": "ci", "scope": "read"}).json["key"]
    assert client.get("/v1/jobs", headers=bearer(second)).status_code == 200


def test_a_key_that_is_rotated_works_until_its_overlap_ends(client, light, clock):
    old = with_key(light, "ci", "ingest", "A", expires=timedelta(days=30))
    before = client.get("/v1/keys").json["keys"]
    made = client.post("/v1/keys/ci/rotate", json={"overlap_hours": 2}).json
    new = bearer(made["key"])
    assert (made["scope"], made["projects"]) == ("ingest", ["A"])
    assert made["expires_at"] == "2026-07-02T12:00:00.000000Z"  # 30 days again
    assert code(client.post("/v1/keys", json={"name": "ci", "scope": "read"}))[0] == 409

    def works(key):
        return client.send(NEW, journal(NEW, project="A"), headers=key).status_code == 200

    assert [works(key) for key in (old, new)] == [True, True]
    clock.turn(hours=2)
    assert [works(key) for key in (old, new)] == [False, True]
    third = client.post("/v1/keys/ci/rotate", json={}).json
    keys = client.get("/v1/keys").json["keys"]
    rows = [row for row in keys if row["name"] == "ci"]  # the first is over, and gone
    assert [row["prefix"] for row in rows] == [made["prefix"], third["prefix"]]
    gone = client.delete(f"/v1/keys/ci?prefix={made['prefix']}")
    assert (gone.status_code, works(new)) == (200, False)
    assert works(bearer(third["key"]))
    assert len(keys) == len(before) + 1
    assert code(client.post("/v1/keys/none/rotate", json={})) == (404, "unknown-key")
    acts = [(e["action"], e["subject"]) for e in client.get("/v1/audit").json["entries"]]
    assert [act for act in acts if act[0] in ("key-rotated", "key-revoked")] == [
        ("key-revoked", f"ci ({made['prefix']})"),
        *[("key-rotated", "ci")] * 2,
    ]


def test_a_key_of_metrics_sees_metrics_alone(client, light):
    key = with_key(light, "prometheus", "metrics")
    assert client.get("/metrics", headers=key).status_code == 200
    for address in ("/v1/jobs", "/jobs", "/v1/projects", "/schedules"):
        assert code(client.get(address, headers=key)) == (403, "forbidden"), address


READS = [
    "/v1/jobs/job-B",
    "/v1/jobs/job-B/report",
    "/v1/jobs/job-B/report.html",
    "/v1/jobs/job-B/report.pdf",
    "/v1/jobs/job-B/revisions",
    "/v1/jobs/job-B/intervals",
    "/v1/jobs/job-B/suggestions",
    "/jobs/job-B",
]


def test_a_key_of_a_project_sees_nothing_of_another(client, two):
    key = with_key(two, "a", "admin", "A")
    for address in READS:
        answer = client.get(address, headers=key)
        assert code(answer) == (404, "unknown-job"), address
        assert "of-B" not in answer.text
        assert answer.json.get("close", []) in ([], ["job-A"])
    shown = client.get("/v1/jobs", headers=key).json
    assert [job["job_id"] for job in shown["jobs"]] == ["job-A"]
    assert client.get("/v1/jobs?project=B", headers=key).json["jobs"] == []
    of_model = client.get("/v1/jobs?model_id=m-1", headers=key).json["model"]
    everything = client.get("/v1/jobs?model_id=m-1").json["model"]
    assert (of_model["jobs"], everything["jobs"]) == (1, 2)
    projects = client.get("/v1/projects", headers=key).json["projects"]
    assert [row["project"] for row in projects] == ["A"]
    for address in ("/", "/jobs", "/projects", "/months"):
        shown = client.get(address, headers=key)
        assert (shown.status_code, "job-B" in shown.text) == (200, False), address


def test_a_month_of_a_key_s_project_alone(client, two):
    key = with_key(two, "a", "read", "A")
    month = "/v1/reports/monthly/2026-05"
    own, whole = client.get(month, headers=key).json, client.get(month).json
    # Each of the two jobs has 3 minutes at 600 W: 0.03 kWh.
    assert own["totals"]["energy_kwh"]["value"] == pytest.approx(0.03, rel=1e-12)
    assert whole["totals"]["energy_kwh"]["value"] == pytest.approx(0.06, rel=1e-12)
    assert own["project"] == "A"
    assert code(client.get(f"{month}?project=B", headers=key)) == (404, "no-data")
    both = with_key(two, "ab", "read", "A", "B")
    assert code(client.get(month, headers=both)) == (422, "invalid")
    assert client.get(f"{month}?project=B", headers=both).json["project"] == "B"
    # What a bound key asked for is not kept as the month of every project.
    assert client.get(month).json == whole


def test_a_key_of_a_project_changes_nothing_of_another(client, two):
    key = with_key(two, "a", "admin", "A")
    for change in ["patch", "delete", "post"]:
        before = client.get("/v1/jobs/job-B/report").data
        address = "/v1/jobs/job-B" + ("/rescore" if change == "post" else "")
        answer = client.open(address, method=change.upper(), json={}, headers=key)
        assert code(answer) == (404, "unknown-job")
        assert client.get("/v1/jobs/job-B/report").data == before


def test_a_job_cannot_be_moved_to_a_project_of_others(client, two):
    key = with_key(two, "a", "admin", "A")
    moved = client.patch("/v1/jobs/job-A", json={"project": "B"}, headers=key)
    assert code(moved) == (403, "forbidden")
    assert client.get("/v1/jobs/job-A").json["project"] == "A"


def test_a_bound_key_may_say_a_request_twice(client, two):
    """What answers repeated requests keeps rows of its own, of no project."""
    key = with_key(two, "a", "admin", "A") | {"Idempotency-Key": "one"}
    for _ in range(2):
        changed = client.patch("/v1/jobs/job-A", json={"name": "n"}, headers=key)
        assert (changed.status_code, changed.json["name"]) == (200, "n")
    other = key | {"Idempotency-Key": "two"}
    assert code(client.patch("/v1/jobs/job-B", json={"name": "n"}, headers=other)) == (
        404,
        "unknown-job",
    )


def test_a_later_key_of_the_same_name_gets_nothing_kept_for_the_first(client, two):
    """Neither its answers nor its bucket: each is kept by the key."""
    say = {"Idempotency-Key": "one"}
    first = with_key(two, "ci", "admin", "A")
    changed = client.patch("/v1/jobs/job-A", json={"name": "n"}, headers=first | say)
    assert changed.status_code == 200
    rotated = rotate_key(two, "ci", timedelta(hours=1)).key
    again = bearer(rotated) | say
    assert client.patch("/v1/jobs/job-A", json={"name": "n"}, headers=again).data == changed.data
    revoke_key(two, "ci")
    other = with_key(two, "ci", "admin", "B")
    answer = client.patch("/v1/jobs/job-A", json={"name": "n"}, headers=other | say)
    assert code(answer) == (404, "unknown-job")
    client.patch("/v1/jobs/job-B", json={"name": "n"}, headers=other)
    entries = client.get("/v1/audit").json["entries"]
    acts = [e["credential"] for e in entries if e["action"] == "job-corrected"]
    keys = [header["Authorization"].split()[1][:11] for header in (other, first)]
    assert acts == keys


def test_a_bound_key_opens_jobs_of_its_project_only(client, two):
    key = with_key(two, "i", "ingest", "A")

    def put(job_id, **declared):
        return client.put(f"/v1/jobs/{job_id}", json=declared, headers=key)

    assert put(NEW, project="A").status_code == 201
    assert code(put(bound_id("new", "B"), project="B")) == (403, "forbidden")
    assert code(put("job-B", project="A")) == (404, "unknown-job")


def test_a_bound_key_sends_jobs_of_its_project_only(client, two):
    key = with_key(two, "i", "ingest", "A")
    own = client.send(NEW, journal(NEW, project="A"), headers=key)
    assert (own.status_code, own.json["accepted"]) == (200, 9)
    foreign = client.send("foreign", journal("foreign", project="B"), headers=key)
    assert code(foreign) == (403, "forbidden")
    assert code(client.get("/v1/jobs/foreign")) == (404, "unknown-job")
    undeclared = client.send("none", journal("none"), headers=key)
    assert code(undeclared) == (403, "forbidden")
    client.delete("/v1/jobs/job-B")
    assert code(client.send("job-B", journal("job-B", project="B"), headers=None)) == (
        410,
        "deleted-job",
    )
    taken = client.send("job-B", journal("job-B", project="A"), headers=key)
    assert code(taken) == (404, "unknown-job")


def test_tables_without_a_project_are_known():
    """A new table is restricted by its project, or named here because it holds nothing of one."""
    free = {name for name, table in METADATA.tables.items() if not way_to_project(table)}
    of_access = {"api_keys", "browser_sessions", "audit", "people"}
    of_tasks = {"task_runs", "listening", "factor_backfill"}
    # Found by an id that only its client knows, or by the name of its key.
    of_clients = {"kept_answers"}
    of_the_grid = {name for name in METADATA.tables if name.startswith("intensity_")}
    of_methods = {"month_methods", "month_method_texts"}  # engine, catalog and sources
    assert free == of_access | of_tasks | of_clients | of_the_grid | of_methods


def test_each_statement_has_the_condition_of_each_of_its_tables(light):
    """As an entity, by another name, within another statement, joined; whatever ran before."""
    store = light.store.of_projects(frozenset({"A", "B"}))
    models = [each.class_ for each in Base.registry.mappers if way_to_project(each.local_table)]
    every = sa.select(sa.literal(1))
    with store.read() as session:
        sent = []
        listener = session.connection(), "before_cursor_execute", lambda *call: sent.append(call)
        sa.event.listen(*listener)
        for model in [*models, *reversed(models)]:
            other, free = orm.aliased(model), sa.select(TaskRun.task)
            column = sa.inspect(model).primary_key[0]
            same = sa.inspect(model).get_property_by_column(column).key
            for statement, times in (
                (sa.select(model), 1),
                (sa.select(other), 1),
                (free.where(sa.exists(every.where(column == column).select_from(model))), 1),
                (sa.select(model, other).where(column == getattr(other, same)), 2),
                (free, 0),
            ):
                sent.clear()
                assert not session.execute(statement).all()
                ((_, _, text, parameters, _, _),) = sent
                assert text.count("project IN (") == times, text
                assert list(parameters).count("A") == times
        sa.event.remove(*listener)


def test_a_select_of_plain_tables_fails_in_a_restricted_session(light):
    store = light.store.of_projects(frozenset({"A"}))
    with store.read() as session, pytest.raises(TypeError):
        session.execute(sa.select(sa.table("jobs", sa.column("job_id"))))


def test_the_audit_log_says_who_did_what_and_cannot_be_changed(client, light, clock):
    add(light)
    create_key(light, "ci", "admin", expires=timedelta(days=1))
    client.patch("/v1/jobs/job-1", json={"name": "other"})
    client.delete("/v1/jobs/job-1")
    client.delete("/v1/keys/ci")
    client.get("/v1/jobs", headers=NO_KEY)
    entries = client.get("/v1/audit?limit=2").json
    rest = client.get(f"/v1/audit?cursor={entries['next_cursor']}").json
    found = entries["entries"] + rest["entries"]
    assert rest["next_cursor"] is None
    assert [(e["actor"], e["action"], e["subject"]) for e in found][:4] == [
        ("nobody", "refused", "GET /v1/jobs: 401"),
        ("api", "key-revoked", "ci"),
        ("api", "job-deleted", "job-1"),
        ("api", "job-corrected", "job-1: name"),
    ]
    assert {e["address"] for e in found[:4]} == {"127.0.0.1"}


def test_the_audit_log_has_who_took_a_file(client, light):
    add(light)
    taken = "/v1/reports/monthly/2026-05.xlsx?project=vision"
    for address in ("/v1/jobs/job-1/report.json", taken, "/v1/jobs/job-1/report.html"):
        assert client.get(address).status_code == 200
    (entry,) = [e for e in client.get("/v1/audit").json["entries"] if e["action"] == "exported"]
    assert (entry["actor"], entry["subject"]) == ("api", taken)


def test_an_entry_of_the_audit_log_stays(service):
    create_key(service, "ci", "read")
    for statement in ["UPDATE audit SET actor = 'x'", "DELETE FROM audit"]:
        with (
            pytest.raises(sa.exc.DBAPIError, match="append-only"),
            service.store.write() as session,
        ):
            session.execute(sa.text(statement))


def refusals(client):
    entries = client.get("/v1/audit?limit=200").json["entries"]
    return [entry["subject"] for entry in entries if entry["action"] == "refused"][::-1]


def test_refusals_without_a_key_are_counted_and_logged_once_an_hour(client, light, clock):
    for address in ("/v1/jobs", "/v1/keys", "/v1/jobs/x"):
        assert client.get(address, headers=NO_KEY).status_code == 401
    assert refusals(client) == ["GET /v1/jobs: 401"]
    clock.turn(minutes=61)
    assert client.get("/v1/keys", headers=NO_KEY).status_code == 401
    later = "GET /v1/keys: 401; 2 more without a key since 2026-06-02 12:00 UTC"
    assert refusals(client) == ["GET /v1/jobs: 401", later]
    reader = with_key(light, "reader", "read")
    for _ in range(2):  # whose key it is has an entry each time
        assert client.get("/v1/keys", headers=reader).status_code == 403
    assert refusals(client)[2:] == ["GET /v1/keys: 403"] * 2
    counted = [
        float(line.rsplit(" ", 1)[1])
        for line in client.get("/metrics").text.splitlines()
        if line.startswith("gramwatt_http_requests_total") and 'status="401"' in line
    ]
    assert sum(counted) == 4


def test_old_entries_of_the_audit_log_are_deleted_and_that_is_an_entry(service, clock):
    create_key(service, "old", "read")
    clock.turn(days=40)
    create_key(service, "new", "read")
    clock.turn(days=51)
    kept_90_days = with_settings(service, keep_audit=timedelta(days=90))
    assert (delete_old_audit(service), delete_old_audit(kept_90_days)) == (0, 1)
    assert delete_old_audit(kept_90_days) == 0
    entries = audit_page(service, 10, None).entries
    assert [(e.actor, e.action, e.subject) for e in entries] == [
        ("retention", "audit-deleted", "1 entries before 2026-06-03T12:00:00.000000Z"),
        ("gramwatt", "key-created", "new (read)"),
    ]
    with pytest.raises(sa.exc.DBAPIError, match="append-only"), service.store.write() as session:
        session.execute(sa.text("DELETE FROM audit"))
