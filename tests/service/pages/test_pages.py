"""The pages over HTTP: what they sum, search, refuse and hide."""

import re
from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import pytest
import sqlalchemy as sa

from gramwatt.collectors.settings.identity import bound_id
from gramwatt.sci.figures.formatting import plain, value_text
from gramwatt.sci.figures.formatting import text as formatted
from gramwatt.service.access.keys import create_key
from gramwatt.service.budgets import set_budget
from gramwatt.service.common.requests import NewBudget
from gramwatt.service.config import from_environment
from gramwatt.service.container import Service
from gramwatt.service.jobs.documents import RUNS
from gramwatt.service.jobs.ingest import ingest
from gramwatt.service.months import overview
from gramwatt.service.months.cache import keep_sums, kept_months
from gramwatt.service.months.overview import model_totals, month_overview, project_bars
from gramwatt.service.months.report import month_report
from gramwatt.service.pages.misquoted import misquoted
from gramwatt.service.pages.operation import SET_FIRST
from gramwatt.service.status import effective_settings
from gramwatt.service.store.months import MonthSum
from gramwatt.service.tasks import runs
from gramwatt.service.tasks.table import TASKS
from tests.journals import body, journal, lines
from tests.service.keyed import add, bearer

MAY = "2026-05"


def page(client, address, **options):
    """A page's text with plain spaces."""
    answer = client.get(address, **options)
    assert answer.status_code == 200, (address, answer.text)
    return re.sub(r"\s+", " ", answer.text.replace("\u202f", " ").replace("\xa0", " "))


def as_key(service, name, *projects):
    key = create_key(service, name, "read", projects).key
    return bearer(key)


@pytest.fixture
def two(light):
    """A job of 3 minutes in project A and one of 9 minutes in B."""
    add(light, "job-A", project="A", minutes=3)
    add(light, "job-B", project="B", minutes=9, name="of-B")
    return light


def test_a_glance_is_the_month_and_its_projects(two):
    found = month_overview(two, MAY)
    month = month_report(two, MAY)
    assert found.sums.totals == month.totals
    assert found.sums.data_quality == month.data_quality
    assert [(bar.name, bar.jobs) for bar in found.projects] == [("B", 1), ("A", 1)]
    # 600 W for 9 and 3 minutes: three times as much.
    ratio = found.projects[0].total_g.value / found.projects[1].total_g.value
    assert ratio == pytest.approx(3)
    assert [bar.name for bar in found.trend][::11] == ["2025-06", MAY]
    assert [bar.jobs for bar in found.trend] == [0] * 11 + [2]
    assert (found.is_current, found.first) == (True, MAY)


def test_the_first_page_answers_with_the_newest_month_that_has_data(two, client):
    text = page(client, "/")
    total = month_report(two, MAY).totals.total_g
    assert "<h1>May 2026" in text
    assert f"<strong>{plain(formatted(total))} from 2 jobs.</strong>" in text
    assert re.search(r"<strong>\d+ % metered</strong>", text)


def test_an_empty_store_leads_to_an_example_month(light, client):
    assert '<a href="/example">' in page(client, "/")
    short, whole = (page(client, f"/example{more}") for more in ("", "?full=true"))
    assert "Example GmbH (invented)" in short
    assert ("Annex A: accounts" in short, "Annex A: accounts" in whole) == (False, True)


def test_a_year_and_its_months_have_their_carbon(two, client):
    total = month_report(two, MAY).totals.total_g
    months = page(client, "/months")
    assert '<a href="/years/2026">The year 2026</a>' in months
    assert 'href="/v1/reports/yearly/2026.pdf"' in months
    assert months.count(plain(value_text(total))) == 2  # the year's and the month's
    year = page(client, "/years/2026")
    assert f"{plain(formatted(total))} so far, from 2 jobs in 1 month." in re.sub(
        "<[^>]*>", "", year
    )
    assert "2026.pdf" in year


def test_models_have_their_carbon_by_what_was_done_with_them(light, client):
    add(light, "made", model_id="m-1", kind="training")
    add(light, "used", model_id="m-1", kind="inference", minutes=9)
    keep_sums(light, MAY)
    totals = model_totals(light)["m-1"]
    assert totals["consumer"].value == pytest.approx(3 * totals["provider"].value)
    assert plain(value_text(totals["provider"])) in page(client, "/models")


def test_sums_that_jobs_have_changed_are_made_anew_where_that_is_quick(two):
    keep_sums(two, MAY)
    add(two, "job-C", project="A")
    assert kept_months(two, [MAY], None)[MAY].holds is False
    found = month_overview(two, MAY)
    assert (found.sums.totals.jobs, found.trend[-1].jobs, found.is_current) == (3, 3, True)
    assert kept_months(two, [MAY], None)[MAY].holds is True


def test_sums_of_many_changed_jobs_are_shown_as_stored_until_asked_for(two, client, monkeypatch):
    keep_sums(two, MAY)
    add(two, "job-C", project="A")
    monkeypatch.setattr(overview, "JOBS_SMALL", 1)
    found = month_overview(two, MAY)
    assert (found.sums.totals.jobs, found.is_current) == (2, False)
    assert project_bars(two, MAY, ["A"])[0]["A"].jobs == 1
    assert 'hx-trigger="load"' in page(client, f"/?month={MAY}")
    assert "3 jobs" in page(client, f"/?month={MAY}&wait=true")
    keep_sums(two, MAY)
    assert month_overview(two, MAY).sums.totals.jobs == 3
    with two.store.write() as session:
        session.execute(sa.update(MonthSum).values(document=None, made_of=None))
    never = month_overview(two, MAY)
    assert (never.sums, never.trend[-1].is_known, never.is_current) == (None, False, False)
    text = page(client, f"/?month={MAY}")
    assert "No scored job" not in text
    assert "are being made" in text


def test_what_is_stored_says_for_each_project_whether_it_holds(two):
    for project in (None, "A", "B"):
        keep_sums(two, MAY, project)
    add(two, "job-C", project="A")
    holds = {p: kept_months(two, [MAY, "2026-04"], p) for p in (None, "A", "B")}
    assert [found[MAY].holds for found in holds.values()] == [False, False, True]
    assert all("2026-04" not in found for found in holds.values())


def test_projects_owners_add_up_and_a_project_without_a_job_has_no_zero(light):
    for n, user in enumerate(("ada", "bob")):
        add(light, f"job-{n}", project="A", minutes=3 * (n + 1), tags={"user": user})
    bars, is_current = project_bars(light, MAY, ["A", "B"])
    total = month_report(light, MAY).totals.total_g.value
    assert bars["A"].total_g.value == pytest.approx(total)
    assert (bars["A"].jobs, bars["B"].jobs, bars["B"].total_g, is_current) == (2, 0, None, True)


def test_the_overview_shows_a_project_s_budget_with_what_is_spent(two, client):
    total_kg = month_report(two, MAY, "A").totals.total_g.value / 1000
    set_budget(two, NewBudget(project="A", limit_kg=total_kg * 4), by="test")
    text = page(client, f"/?month={MAY}&project=A")
    assert "within budget, about" in text
    assert "(25 %)" in text
    budgets = page(client, "/budgets")
    assert "25 % of the limit" in budgets
    assert "within budget, about" in budgets
    assert "25 % of it" in page(client, f"/?month={MAY}")


def test_a_budget_is_set_by_an_admin_on_its_page_or_refused(two, client):
    assert 'action="/budgets/set"' in page(client, "/budgets")
    assert 'action="/budgets/set"' not in page(client, "/budgets", headers=as_key(two, "reader"))
    budget = {"project": "A", "limit_kg": "12.5", "month": ""}
    answer = client.post("/budgets/set", data=budget)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/budgets")
    assert "12.5 kg" in page(client, "/budgets")
    answer = client.post("/budgets/set", data={**budget, "limit_kg": "-1"})
    assert (answer.status_code, "form.limit_kg" in answer.text) == (422, True)


def test_a_key_of_some_projects_sees_those_alone_on_every_page(two, client):
    own = as_key(two, "a", "A")
    for address in ("/", f"/?month={MAY}", "/jobs", "/projects", "/models", "/months", "/running"):
        text = page(client, address, headers=own)
        assert "of-B" not in text, address
        assert "project=B" not in text, address
    text = page(client, f"/?month={MAY}", headers=own)
    assert "<small>1 job</small>" in text
    assert "all projects" not in text
    assert client.get(f"/?month={MAY}&project=B", headers=own).status_code == 404
    assert client.get("/compare?before=job-B", headers=own).status_code == 404
    for address in ("/keys", "/settings", "/schedules"):
        assert client.get(address, headers=own).status_code == 403, address
    both = as_key(two, "both", "A", "B")
    assert "<small>A</small>" in page(client, f"/?month={MAY}", headers=both)


def test_a_reader_sees_no_keys_and_no_settings(two, client):
    reader = as_key(two, "reader")
    text = page(client, "/", headers=reader)
    assert ('href="/keys"' in text, 'href="/schedules"' in text) == (False, True)
    for address in ("/keys", "/settings"):
        assert client.get(address, headers=reader).status_code == 403
    given = {"name": "x", "scope": "admin"}
    assert client.post("/keys/new", data=given, headers=reader).status_code == 403


def test_search_finds_part_of_a_name_model_or_tag_or_the_start_of_an_id(light, client):
    add(light, "run-1", name="ResNet 100%", tags={"user": "Ada", "team": "vision"})
    add(light, "run-2", name="resnext", model_id="org/Digits")
    add(light, "other", name="run-1 again")

    def found(text, **only):
        answer = client.get("/v1/jobs", query_string={"q": text, **only})
        assert answer.status_code == 200
        return {row["job_id"] for row in answer.get_json()["jobs"]}

    assert found("ada") == found("user:ADA") == found("visi") == {"run-1"}
    assert found("ORG/dig") == {"run-2"}
    # Neither what a label is of nor hardware and zones are searched.
    assert found("tag") == found("nvidia") == found("zone:") == set()

    assert found("resn") == {"run-1", "run-2"}
    assert found("run-1") == {"run-1", "other"}
    assert found("100%") == {"run-1"}
    assert found("r_n") == set()
    assert found("resn", state="failed") == set()


def test_the_list_sorts_by_its_columns_and_keeps_the_filters(light, client):
    for number, minutes in enumerate((2, 9, 5)):
        add(light, f"job-{number}", minutes=minutes, name=f"n{number}")

    def order(address):
        return re.findall(r'id="job-(job-\d)"', page(client, address))

    assert order("/jobs?sort=-energy") == ["job-1", "job-2", "job-0"]
    assert order("/jobs?sort=energy") == ["job-0", "job-2", "job-1"]
    text = page(client, "/jobs?sort=-energy&q=n&tag=")
    assert 'aria-sort="descending"' in text
    assert re.search(r'href="/jobs\?(sort=energy&amp;q=n|q=n&amp;sort=energy)"', text)


def test_two_jobs_are_compared_per_unit_or_refused(two, client):
    text = page(client, "/compare?before=job-A&after=job-B")
    assert "run each side again" in text  # one run a side, and no earlier ones of that name
    assert "Energy per image" in text
    assert "J/image" in text
    add(two, "declared", project="A", pue=1.1)
    text = page(client, "/compare?before=job-A&after=declared")
    assert "the way PUE is known" in text
    assert "run each side again" not in text
    assert "&lt;b&gt;" in page(client, "/compare?before=job-A&after=job-B&unit=<b>")


def test_runs_of_other_work_are_told_what_each_side_counts(light, client):
    add(light, "images", project="A")
    counted = journal("tokens", project="A", units=("token",))
    tokens = [
        msgspec.structs.replace(one, unit="token") if one.TYPE == "count" else one
        for one in counted
    ]
    ingest(light, "tokens", lines(tokens))
    text = page(client, "/compare?before=images&after=tokens")
    assert "no unit of work in common: before counts image; after counts token." in text
    # The list from which to choose says what each run counts.
    add(light, "more", project="A")
    text = page(client, "/compare?before=images&after=tokens")
    assert '<td data-label="Work">image</td>' in text


def test_several_runs_a_side_are_compared_with_how_far_they_lie_apart(light, client):
    for number, power_w in enumerate((590, 600, 610, 290, 300, 310)):
        add(light, f"run-{number}", project="A", name="run", power_w=float(power_w))
    repeated = page(
        client, "/compare?before=run-0&before=run-1&before=run-2&after=run-3+run-4,run-5"
    )
    typed = page(client, "/compare?before=run-0,run-1+run-2&after=run-3&after=run-4+run-5")
    assert repeated == typed
    ticks = re.findall(r'name="(before|after)" value="(run-\d)" checked', repeated)
    assert ticks == [("before" if n < 3 else "after", f"run-{n}") for n in range(6)]
    assert "and how far runs lie apart (" in repeated
    # 10 images a minute for 3 minutes are 30 a run, and 90 a side.
    assert repeated.count('<td class="number" data-label="Work">30</td>') == 6
    assert '<div class="verdict lower"><p><strong>Less carbon.</strong>' in repeated
    # Both sides have the grid and the PUE of all their runs.
    for term in ("Grid intensity", "Site overhead (PUE)"):
        row = repeated.split(f'<th scope="row">{term}</th>')[1].split("</tr>")[0]
        assert "not known" not in row
    both = page(client, "/compare?before=run-0&after=run-0")
    assert "is named twice" in both
    # The runs of its name that it follows stand before a job; others of the project can be ticked.
    add(light, "late", project="A", name="run", start=datetime(2026, 5, 11, tzinfo=UTC))
    one = page(client, "/compare?after=late")
    assert len(re.findall(r'name="before" value="run-\d" checked', one)) == RUNS
    assert re.findall(r'name="after" value="([^"]*)" checked', one) == ["late"]


def test_ticked_runs_of_one_name_are_parted_by_the_longest_time_between_two(light, client):
    for day in (1, 2, 12, 13, 14):
        add(light, f"day-{day}", project="A", start=datetime(2026, 5, day, tzinfo=UTC))
    ticked = page(client, f"/compare?{'&'.join(f'run=day-{n}' for n in (13, 2, 12, 14, 1))}")
    sides = re.findall(r'name="(before|after)" value="day-(\d+)" checked', ticked)
    assert [number for side, number in sides if side == "before"] == ["1", "2"]
    assert [number for side, number in sides if side == "after"] == ["12", "13", "14"]
    swapped = re.search(r'href="(/compare[^"]*)">Swap sides', ticked)[1].replace("&amp;", "&")
    assert 'name="before" value="day-14" checked' in page(client, swapped)


def test_a_name_stands_for_its_newest_runs(light, client):
    add(light, "old", project="A", name="main run")
    add(light, "new", project="A", name="change")
    named = page(client, "/compare?before=main+run&after=change")
    assert re.findall(r'value="(\w+)" checked', named) == ["old", "new"]


def test_the_planner_answers_a_form_and_says_what_is_wrong(light, client):
    answer = client.post("/planner/plan", data={"hours": "2", "zone": "FR", "power_w": "500"})
    assert answer.status_code == 200
    assert "today&#39;s weather is not known" in answer.text
    assert answer.text.count(" gCO2e/kWh</title>") == 26  # a day and the job
    unknown = client.post("/planner/plan", data={"hours": "2", "zone": "TW"})
    assert "The hours of TW are not known" in unknown.text
    assert "gCO2e/kWh</title>" not in unknown.text
    places = client.post("/planner/plan", data={"hours": "2", "zone": "Germany", "zones": "FR PL"})
    assert re.search(r"\d+\xa0% more", places.text.split('intensity/PL">PL</a></th>')[1])
    assert places.text.count('<figure class="day">') == 3
    assert "in Berlin" in places.text
    # Without a zone the page has the plan of the newest job's.
    assert "<figure" not in page(client, "/planner")
    add(light, "job-1", zone="DE")
    assert "in Berlin" in page(client, "/planner")
    waiting = {"hours": "4", "zone": "US-CAL-CISO", "earliest": "2026-06-02T18:00"}
    answer = client.post("/planner/plan", data=waiting)
    assert "in Los Angeles" in answer.text
    assert 1 <= answer.text.count('class="planned"') <= 5
    for given, says in (
        ({"hours": "two", "zone": "FR"}, "is not a number"),
        ({"hours": "2"}, "zone, or zones"),
        ({"hours": "2", "zone": "Atlantis"}, "Atlantis"),
        ({"hours": "2", "zone": "FR", "deadline": "2020-01-01T00:00"}, "deadline"),
    ):
        answer = client.post("/planner/plan", data=given)
        assert (answer.status_code, says in answer.text) == (422, True), given


def test_a_key_is_made_shown_once_and_revoked(light, client):
    given = {"name": "ci", "scope": "ingest", "projects": ["A", "B"], "expires_days": "30"}
    made = client.post("/keys/new", data=given)
    assert made.headers["Cache-Control"] == "no-store"
    key = re.search(r'class="key">(gw_\S+)</code>', made.text)[1]
    shown = page(client, "/keys")
    assert ("ci" in shown, key in shown) == (True, False)
    own_key = bearer(key)
    name = bound_id("job-1", "A")
    lines_of = body(journal(name, project="A"))
    sent = {"headers": own_key, "data": lines_of, "content_type": "application/x-ndjson"}
    assert client.post(f"/v1/jobs/{name}/records", **sent).status_code == 200
    assert client.post("/keys/revoke", data={"name": "ci"}).status_code == 303
    assert client.post(f"/v1/jobs/{name}/records", **sent).status_code == 401
    wrong = client.post("/keys/new", data={"name": "no name", "scope": "ingest", "projects": "A"})
    assert wrong.status_code == 422


def test_a_key_made_without_a_choice_of_projects_is_for_all_of_them(client):
    made = client.post("/keys/new", data={"name": "all", "scope": "read", "expires_days": ""})
    assert made.status_code == 200
    (row,) = (row for row in client.get("/v1/keys").json["keys"] if row["name"] == "all")
    assert (row["projects"], row["expires_at"]) == ([], None)


def test_settings_name_their_origin_and_hide_secrets(light):

    alerts = replace(light.config.alerts, webhook_secret="hush-1", smtp_url="smtp://me:hush-2@mail")
    url = "postgresql://ada:hush-3@db/gramwatt?password=hush-4"
    config = replace(light.config, alerts=alerts, database_url=url)
    env = {"GRAMWATT_SMTP_URL": "smtp://me:hush-2@mail", "GRAMWATT_BACKUP_KEEP": "9"}
    found = {row.name: row for row in effective_settings(replace(light, config=config), env)}
    assert "hush" not in str(found)
    assert found["GRAMWATT_DATABASE_URL"].value == "postgresql://ada:***@db/gramwatt"
    assert found["GRAMWATT_DATABASE_URL"].origin == "argument"
    assert found["GRAMWATT_SMTP_URL"].value == "set, hidden"
    assert found["GRAMWATT_SMTP_URL"].origin == "environment"
    assert found["GRAMWATT_BACKUP_KEEP"].origin == "environment"
    assert (found["GRAMWATT_LOG"].value, found["GRAMWATT_LOG"].origin) == ("text", "default")


def test_every_setting_on_the_page_is_read_and_shows_where_its_value_comes_from(light, tmp_path):
    (key := tmp_path / "key").write_text("hush-1")
    env = {
        "GRAMWATT_RETENTION_DAYS": "90",
        "GRAMWATT_SILENT_AFTER_S": "60",
        "GRAMWATT_MAX_BODY_MIB": "0.5",
        "GRAMWATT_TIMEZONE": "Europe/Berlin",
        "GRAMWATT_TRUSTED_PROXIES": "10.0.0.0/8 fd00::/8",
        "GRAMWATT_ORGANISATION": "Example GmbH",
        "GRAMWATT_REPORT_EMAIL": "a@example.org",
        "GRAMWATT_REPORT_DIR": str(tmp_path),
        "GRAMWATT_REPORT_PROJECTS": "b a",
        "GRAMWATT_INTENSITY": "entsoe; GB=uk; FR=off",
        "GRAMWATT_ENTSOE_KEY_FILE": str(key),
        "GRAMWATT_UK_URL": "https://me:hush-2@mirror.example/uk",
        "GRAMWATT_LIFETIME_YEARS": "5",
    }
    shown = {
        "GRAMWATT_REPORT_PROJECTS": "a b",
        "GRAMWATT_ENTSOE_KEY_FILE": "set, hidden",
        "GRAMWATT_UK_URL": "https://mirror.example/uk",
    }
    env |= {"GRAMWATT_HOME": str(tmp_path), "GRAMWATT_OIDC_CLIENT_ID": "c"}
    service = Service(from_environment(env), light.store)
    found = {row.name: row for row in effective_settings(service, env)}
    assert "hush" not in str(found)
    set_here = {name for name, row in found.items() if row.origin == "environment"}
    assert set_here == set(env)
    assert {row.origin for row in found.values()} == {"environment", "default"}
    assert found.pop("GRAMWATT_OIDC_CLIENT_ID").value == "set, not used"  # needs an issuer
    for name, text in env.items():
        assert name not in found or found[name].value == shown.get(name, text)
    assert found["GRAMWATT_ENTSOE_KEY"].value == "not set"
    assert all(row.what for row in found.values())


def test_what_is_usual_or_well_is_folded(light, client):
    shown, _, folded = page(client, "/settings").partition("<details")
    defaults = [row.name for row in effective_settings(light) if row.origin == "default"]
    first = [name for name in defaults if name in SET_FIRST]
    assert set(SET_FIRST) <= {row.name for row in effective_settings(light)}
    for name in defaults:
        assert (name in shown, name in folded) == (name in first, name not in first), name
    assert "No task ran yet" in page(client, "/schedules").partition("<details")[0]
    for task, error in (("close-silent", None), ("outbox", "no mail server")):
        runs.end(light, runs.begin(light, task, "here"), error)
    shown = page(client, "/schedules").partition("<details")[0]
    assert f"1 of the {len(TASKS)} tasks is not well." in shown
    assert ("no mail server" in shown, "close-silent" in shown) == (True, False)


def test_every_misquoted_figure_differs_from_the_catalog_s(light):
    found = misquoted(light.catalog)
    assert len(found) == 30
    for row in found:
        printed = [float(n) for n in re.findall(r"\d+(?:\.\d+)?", row.wrong.replace(" ", ""))[:2]]
        right = re.match(r"[\d.]+", row.right.replace("\u202f", ""))
        if printed and " x " not in row.right:
            assert all(abs(n / float(right[0]) - 1) > 0.03 for n in printed), row
        assert row.right not in row.wrong
        assert row.sources or row.what == "embodied carbon"
    by_hand = {(row.id, row.wrong): row.right for row in found}
    # 989 over 700 W; AWS sells the p4d with eight.
    assert by_hand["nvidia-h100-sxm5-80", "86 to 114 TFLOPS/W"] == "1.41 TFLOPS/W"
    assert by_hand["aws:p4d.24xlarge", "4 x A100"].startswith("8 x A100")


def test_what_runs_is_said_with_its_range_and_only_where_something_does(two, client):
    text = page(client, f"/?month={MAY}")
    assert "Jobs that run are in no sum above." in text
    assert "0 jobs run" not in text
    add(two, "job-now", project="A", end_state=None)
    running = page(client, f"/?month={MAY}&wait=true")
    # 600 W for 3 minutes, and so 30 Wh; the range is that of the meter, 5 % each way.
    assert re.search(r"1 job runs, with 30\.0 Wh so far \(28\.5 to 31\.5 Wh\), \d+ % of", running)


def test_what_a_running_job_used_is_known_before_its_first_score(two, client):
    add(two, "job-now", project="A", end_state=None)
    for address in ("/running", f"/?month={MAY}"):
        row = page(client, address).partition('id="running-job-now"')[2]
        assert "30.0 Wh<small>28.5 to 31.5 Wh</small>" in row
        assert "not scored yet" in row
        assert "not known" not in row


def test_a_month_s_page_is_short_and_leads_to_the_whole_report(two, client):
    short, whole = (page(client, f"/months/{MAY}{more}") for more in ("", "?full=true"))
    assert len(short) < len(whole) / 2
    owners = "Projects and owners</h3>"
    assert (owners in short, owners in whole) == (False, True)
    links = re.findall(r'<a href="(/months/[^"#]+)#([^"]+)">', short)
    assert "projects-and-owners" in [section for _, section in links]
    for address, section in links:
        assert (address, f'id="{section}"' in whole) == (f"/months/{MAY}?full=true", True)
    of_a = page(client, f"/months/{MAY}?project=A")
    assert f"/months/{MAY}?full=true&amp;project=A#projects-and-owners" in of_a


def test_a_month_of_running_jobs_alone_has_no_grade(light, client):
    add(light, "job-now", end_state=None)
    text = page(client, f"/?month={MAY}&wait=true")
    assert "no job with a score" in text
    assert "Outcomes" not in text


def test_what_users_wrote_is_neither_linked_nor_markup(light, client):
    add(light, "job-1", name="embodied <b>", project="derived", tags={"note": "market-based"})
    text = page(client, "/v1/jobs/job-1/report.html?full=true")
    assert "<dt>Name</dt><dd>embodied &lt;b&gt;</dd>" in text
    assert "<dt>Project</dt><dd>derived</dd>" in text
    assert "note = market-based" in text
    assert "embodied <b>" not in text


def test_estimated_terms_of_the_score_are_marked_and_metered_ones_are_not(light, client):
    add(light, "job-1")
    text = page(client, "/v1/jobs/job-1/report.html?full=true")
    table = text[text.index("<caption>Terms of this job") :].partition("</table>")[0]
    rows = dict(re.findall(r'<th scope="row">(.*?)</th>.*?class="right"[^>]*>(.*?)</td>', table))
    assert "≈" not in rows["E"]
    assert all("≈" in rows[term] for term in ("M", "C", "SCI")), rows


def test_the_full_report_does_not_send_its_reader_to_the_full_report(light, client):
    add(light, "job-1", zone=None)
    short, full = (
        page(client, f"/v1/jobs/job-1/report.html?full={full}") for full in ("false", "true")
    )
    assert "in the full report." in short
    assert "in the full report." not in full


def test_what_runs_of_a_model_did_not_finish_has_its_range_and_mark(light, client):
    add(light, "job-1", model_id="org/digits", end_state="failed")
    text = page(client, f"/v1/reports/monthly/{MAY}.html")
    table = text[text.index("<caption>Runs by model") :].partition("</table>")[0]
    cell = re.findall(r'<td class="right"[^>]*>(.*?)</td>', table)[-1]
    assert "≈" in cell
    assert re.search(r"<small>[\d.]+ to [\d.]+, 1 run</small>", cell), cell
