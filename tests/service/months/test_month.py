"""Months over HTTP: what lies across an edge is divided at it, and what is missing is named."""

import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gramwatt.sci.records.records import CountRecord, IntervalRecord, JobRecord
from gramwatt.service.jobs.ingest import ingest
from gramwatt.service.months.report import month_report, months_with_data
from tests.journals import Writer, lines
from tests.tables import month_of_tables, tables_of

EDGE = datetime(2026, 5, 1, tzinfo=UTC)
YEAR = [f"2026-{number:02d}" for number in range(1, 13)]
H = 3600.0
TERMS = ("energy_kwh", "operational_g", "embodied_g", "total_g")


def written(client, name, form):
    data = client.get(f"/v1/reports/monthly/{name}.{form}").data
    return data.decode("utf-8-sig").replace("\u202f", " ")


def across(client, start_s, intervals, counts=(), end_s=None, job_id="job-1", **head):
    """A job with times in seconds after midnight of 1 May, on one GPU."""
    writer = Writer(job=job_id, t0=EDGE)
    given = {"zone": "DE", "pue": 1.0, "units": ("image",), "started_at": writer.at(start_s)}
    records = [writer.job(**given | head), writer.device("GPU-1", name="NVIDIA L4")]
    records += [writer.interval(*interval) for interval in intervals]
    records += [writer.count(amount, seconds=at_s) for at_s, amount in counts]
    records += [writer.end(end_s, exit_code=0)] if end_s is not None else []
    client.take(records)
    return records


def value(figure):
    return figure["value"] if figure else None


def counted(document):
    return {row["unit"]: row["count"] for row in document["projects"]}


def test_an_interval_across_the_edge_is_divided_by_time(client):
    # 20 minutes at 100 W are 120 kJ, a quarter of it before midnight: 30 kJ and 90 kJ.
    across(client, -300, [(-300, 900, 120_000)], [(-1, 5), (900, 10)], 900)
    april, may = client.month("2026-04"), client.month("2026-05")
    assert value(april["totals"]["energy_kwh"]) == pytest.approx(30_000 / 3.6e6, rel=1e-12)
    assert value(may["totals"]["energy_kwh"]) == pytest.approx(90_000 / 3.6e6, rel=1e-12)
    whole = client.get("/v1/jobs/job-1/report").json
    for term in TERMS:
        # One zone, one intensity, and power as even as time: a quarter of everything.
        assert value(april["totals"][term]) == pytest.approx(whole[term]["value"] / 4, rel=1e-12)
        assert value(may["totals"][term]) == pytest.approx(whole[term]["value"] * 3 / 4, rel=1e-12)
    assert [day["day"] for day in whole["days"]] == ["2026-04-30", "2026-05-01"]


def test_units_counted_once_at_the_end_belong_to_all_the_time_before(client):
    # Two days, counted once at the end: half of R beside half of the carbon.
    hours = [(s * H, (s + 1) * H, 360_000) for s in range(-24, 24)]
    across(client, -24 * H, hours, [(24 * H, 1000)], 24 * H)
    april, may = client.month("2026-04"), client.month("2026-05")
    assert [counted(april), counted(may)] == [{"image": 500.0}, {"image": 500.0}]
    one, other = (document["projects"][0]["g_per_unit"]["value"] for document in (april, may))
    whole = client.get("/v1/jobs/job-1/report").json["sci"][0]["g_per_unit"]["value"]
    assert one == pytest.approx(other, rel=1e-12)
    assert one == pytest.approx(whole, rel=1e-12)


def test_units_are_divided_over_the_time_since_the_count_before(client):
    # 40 images from -1 h to +3 h: a quarter of them before midnight; the 10 before that wholly.
    across(client, -5 * H, [(-5 * H, 3 * H, 1000)], [(-1 * H, 10), (3 * H, 40)], 3 * H)
    assert counted(client.month("2026-04")) == {"image": pytest.approx(20, rel=1e-12)}
    assert counted(client.month("2026-05")) == {"image": pytest.approx(30, rel=1e-12)}


def test_a_replaced_meter_counts_on_from_its_forerunner(client):
    """The client's count lines are numbered by the client, whichever meter writes them."""
    names = ("w1", "w2", "c1-count")
    first, second, client_lines = (Writer(name, job="job-1", t0=EDGE) for name in names)
    start = first.at(-10 * H)
    records = [
        first.job(zone="DE", pue=1.0, units=("image",), started_at=start),
        first.device("GPU-1", name="NVIDIA L4"),
        first.interval(-10 * H, 10 * H, 1e6),
        client_lines.count(100, seconds=-1 * H),
        second.job(units=("image",), started_at=start, resumes="w1"),
        # A quarter of the four hours since lies before midnight.
        client_lines.count(40, seconds=3 * H),
        second.end(10 * H),
    ]
    client.take(records)
    assert counted(client.month("2026-04")) == {"image": pytest.approx(110, rel=1e-12)}
    assert counted(client.month("2026-05")) == {"image": pytest.approx(30, rel=1e-12)}


def test_a_node_s_embodied_carbon_lies_in_the_time_of_that_node(client):
    records = []
    # n-a from -4 h to -1 h; n-b from -3 h to +1 h, a quarter of it in May.
    for node, start, end in (("n-a", -4, -1), ("n-b", -3, 1)):
        writer = Writer(f"w-{node}", node, t0=EDGE)
        records += [
            writer.job(zone="DE", pue=1.0, started_at=writer.at(start * H)),
            writer.device(f"GPU-{node}", name="NVIDIA L4"),
            writer.interval(start * H, end * H, 1e6, f"GPU-{node}"),
            writer.end(end * H),
        ]
    client.take(records)
    grams = {"n-a": 0.0, "n-b": 0.0}
    for term in client.get("/v1/jobs/job-1/report").json["embodied_terms"]:
        grams[term["node"]] += term["embodied_g"]["value"]
    april, may = (client.month(name)["totals"]["embodied_g"] for name in ("2026-04", "2026-05"))
    assert value(may) == pytest.approx(grams["n-b"] / 4, rel=1e-12)
    assert value(april) == pytest.approx(grams["n-a"] + grams["n-b"] * 3 / 4, rel=1e-12)


def test_a_job_without_units_is_one_job_over_its_months(client):
    across(client, -1 * H, [(-1 * H, 3 * H, 1e6)], [], 3 * H, units=())
    assert counted(client.month("2026-04")) == {"job": pytest.approx(0.25, rel=1e-12)}
    assert counted(client.month("2026-05")) == {"job": pytest.approx(0.75, rel=1e-12)}


def test_a_job_is_in_each_of_its_months_and_ends_in_one(client):
    across(client, -1 * H, [(-1 * H, 1 * H, 1e6)], [], 1 * H)
    across(client, -2 * H, [(-2 * H, 0, 1e6)], [], 0, job_id="until-midnight")
    april, may = client.month("2026-04"), client.month("2026-05")
    result = [(m["totals"]["jobs"], m["totals"]["jobs_ended"]) for m in (april, may)]
    assert result == [(2, 1), (1, 1)]
    assert client.get("/v1/jobs/until-midnight/report").json["days"][-1]["day"] == "2026-04-30"


def test_a_day_without_readings_has_none_of_the_job_s_energy(client):
    across(client, -2 * H, [(-2 * H, -1 * H, 1e6)], [], 1 * H)
    first, second = client.get("/v1/jobs/job-1/report").json["days"]
    assert value(first["energy_kwh"]) == pytest.approx(1e6 / 3.6e6, rel=1e-12)
    assert value(second["energy_kwh"]) == 0
    assert value(client.month("2026-05")["totals"]["total_g"]) == pytest.approx(
        value(second["embodied_g"]), rel=1e-12
    )


def test_the_jobs_with_the_most_carbon_are_judged_by_their_part_in_the_month(client):
    long = [(s * H, (s + 1) * H, 360_000) for s in range(-200, 1)]
    across(client, -200 * H, long, [(1 * H, 201)], 1 * H, job_id="mostly-april")
    short = [(s * H, (s + 1) * H, 360_000) for s in range(10)]
    across(client, 0, short, [(10 * H, 10)], 10 * H, job_id="of-may")
    top = client.month("2026-05")["top_jobs"]
    assert [job["job_id"] for job in top] == ["of-may", "mostly-april"]
    # One of 201 hours of 360 kJ lies in May.
    assert value(top[1]["energy_kwh"]) == pytest.approx(0.1, rel=1e-12)
    assert top[1]["duration_s"] == pytest.approx(201 * H)


def test_a_running_job_is_named_and_the_month_is_not_complete(client, clock):
    across(client, 0, [(0, H, 360_000)], [], H, job_id="done")
    # 0.1 kWh an hour, an hour of it in April; its last interval ends in June.
    june = 31 * 24 * H
    records = across(client, -H, [(-H, H, 720_000), (june - H, june + H, 720_000)], job_id="on")
    result = client.month("2026-05")
    assert (result["complete"], result["totals"]["jobs"]) == (False, 1)
    running = result["jobs_running"]
    assert (running["jobs"], [row["job_id"] for row in running["named"]]) == (1, ["on"])
    assert value(running["energy_kwh"]) == pytest.approx(0.2, rel=1e-12)
    assert running["energy_kwh"]["low"] < 0.2 < running["energy_kwh"]["high"]
    assert running["named"][0]["energy_kwh"] == running["energy_kwh"]
    assert result["jobs_unscored"] == {"jobs": 0, "energy_kwh": None, "named": []}
    assert value(client.month("2026-04")["jobs_running"]["energy_kwh"]) == pytest.approx(0.1)
    assert client.month("2026-06")["jobs_running"]["jobs"] == 1
    end = Writer(job="on", t0=EDGE, first_seq=len(records) + 1).end(june + H)
    client.take([end])
    result = client.month("2026-05")
    assert (result["complete"], result["totals"]["jobs"]) == (True, 2)
    assert result["jobs_running"] == {"jobs": 0, "energy_kwh": None, "named": []}
    assert value(result["totals"]["energy_kwh"]) == pytest.approx(0.3, rel=1e-12)
    assert client.month("2026-06")["complete"] is False  # the month is not over


def test_a_service_that_runs_on_is_beside_the_sums_of_a_month_and_on_its_page(client):
    across(client, 0, [(0, H, 360_000)], [], H, job_id="done")
    more = {"kind": "inference", "name": "chat", "tags": {"serving": "vllm"}}
    across(client, 0, [(0, 2 * H, 720_000)], [(H, 5)], job_id="served", **more)
    result = client.month("2026-05")
    (row,) = result["jobs_running"]["named"]
    assert (row["job_id"], value(row["energy_kwh"])) == ("served", pytest.approx(0.2, rel=1e-12))
    assert value(result["totals"]["energy_kwh"]) == pytest.approx(0.1, rel=1e-12)
    page = client.get("/v1/reports/monthly/2026-05.html").text
    beside = " ".join(page.split()).partition("Not in the sums")[2]
    assert "Running and unscored jobs" in beside
    assert "chat" in beside
    assert "200 Wh <small>190 to 210</small>" in beside


def test_each_database_adds_up_what_has_arrived_of_a_running_job(service):
    writer = Writer(job="on", t0=EDGE)
    records = [
        writer.job(),
        writer.device("GPU-1"),
        writer.interval(-H, 3 * H, 720_000),  # three quarters of 0.2 kWh
        writer.interval(3 * H, 4 * H, 360_000, kind="estimated"),  # 0.1 kWh
    ]
    ingest(service, "on", lines(records))
    running = month_report(service, "2026-05").jobs_running
    assert (running.jobs, running.energy_kwh.kind) == (1, "estimated")
    assert running.energy_kwh.value == pytest.approx(0.25, rel=1e-12)
    # It began in May and runs on 2 June, when this is asked.
    assert months_with_data(service) == ["2026-06", "2026-05"]


def test_a_running_job_that_says_it_began_in_2000_adds_three_years_of_months(light):
    """Each of them would be looked at every minute."""
    writer = Writer("w-1", "n-1", "old", t0=datetime(2000, 1, 1, tzinfo=UTC))
    ingest(light, "old", lines([writer.job(zone="FR")]))
    months = months_with_data(light)
    assert (months[0], months[-1], len(months)) == ("2026-06", "2000-01", 38)


def test_a_running_job_that_says_it_begins_later_adds_no_month(light):
    writer = Writer("w-1", "n-1", "early", t0=datetime(2027, 1, 1, tzinfo=UTC))
    ingest(light, "early", lines([writer.job(zone="FR")]))
    assert months_with_data(light) == []


def test_a_kept_report_gives_way_when_a_job_of_the_month_runs_again(client):
    records = across(client, 0, [(0, H, 360_000)], [], H)
    assert client.month("2026-05")["complete"] is True
    writer = Writer("w2", job="job-1", t0=EDGE)
    client.take([writer.job(started_at=EDGE), writer.interval(H, 2 * H, 360_000)])
    result = client.month("2026-05")
    assert (result["complete"], result["totals"]["jobs"]) == (False, 0)
    # The sums leave it out, and its energy so far is all that has arrived.
    assert value(result["jobs_running"]["energy_kwh"]) == pytest.approx(0.2, rel=1e-12)
    assert len(records) == 4


def test_a_kept_report_gives_way_when_a_job_leaves_the_month(client, clock):
    # A recovery ends the job in May, until the writer's own end says that it was in April.
    across(client, -300, [(-300, -60, 1000)])
    lost = Writer("r-w1", job="job-1", t0=EDGE)
    closing = [lost.job(role="recovery", resumes="w1", started_at=lost.at(-300))]
    client.take([*closing, lost.end(300, state="lost")])
    kept = client.post("/v1/reports/monthly/2026-05").json
    assert (kept["revision"], kept["totals"]["jobs"]) == (1, 1)
    clock.turn(days=1)
    own = Writer("w1", job="job-1", t0=EDGE, first_seq=10)
    client.take([own.end(-60, exit_code=0)])
    assert client.month("2026-04")["totals"]["jobs_ended"] == 1
    assert client.month("2026-05")["totals"]["jobs"] == 0


def test_a_job_without_a_score_is_named(client, light):
    across(client, 0, [(0, H, 360_000)], [], H, job_id="done")
    ended = across(client, 0, [(0, H, 720_000)], job_id="ended")
    end = Writer(job="ended", t0=EDGE, first_seq=len(ended) + 1).end(H)
    ingest(light, "ended", lines([end]), score=False)
    result = client.month("2026-05")
    assert (result["complete"], result["totals"]["jobs"]) == (False, 1)
    unscored = result["jobs_unscored"]
    assert (unscored["jobs"], [row["job_id"] for row in unscored["named"]]) == (1, ["ended"])
    assert value(unscored["energy_kwh"]) == pytest.approx(0.2, rel=1e-12)


def test_a_job_of_no_time_has_its_energy_and_no_embodied_carbon(client):
    across(client, 0, [(0, H, 360_000)], [], H, job_id="whole")
    alone = client.month("2026-05")["totals"]
    across(client, 0, [(0, 1, 36_000)], [(0, 5)], 0, job_id="short")
    document = client.get("/v1/jobs/short/report").json
    assert value(document["energy_kwh"]) == pytest.approx(0.01)
    assert (document["embodied_g"], document["conformance"]) == (None, "not-sci")
    assert [(row["count"], row["g_per_unit"]) for row in document["sci"]] == [(5.0, None)]
    assert any("reserved for no time" in notice["message"] for notice in document["notices"])
    totals = client.month("2026-05")["totals"]
    assert (totals["jobs"], totals["jobs_unknown"]) == (2, 1)
    assert value(totals["energy_kwh"]) == pytest.approx(0.11)
    assert value(totals["embodied_g"]) == pytest.approx(value(alone["embodied_g"]))


def test_what_is_missing_is_on_the_page_and_in_the_tables(client):
    across(client, 0, [(0, H, 360_000)], [], H, job_id="done")
    across(client, 0, [(0, H, 720_000)], name="<b>big</b> run", job_id="on")
    page = written(client, "2026-05", "html")
    assert "1 job still runs (on) and is in no sum." in page
    assert "Energy so far in this month: 200 Wh (190 to 210)" in page.replace("\xa0", " ")
    assert "&lt;b&gt;big&lt;/b&gt; run" in page
    assert client.get("/v1/reports/monthly/2026-05.pdf").data.startswith(b"%PDF-")
    tables = tables_of(client.get("/v1/reports/monthly/2026-05.zip").data)
    sums, (outside,) = month_of_tables(tables), tables["outside"]
    assert (sums["Complete"], sums["Jobs running"], sums["Jobs not scored"]) == ("no", "1", "0")
    assert (outside["Job"], outside["Why"]) == ("on", "running")
    assert float(outside["Energy so far, kWh"]) == pytest.approx(0.2)


def test_a_month_of_running_jobs_only_has_a_report_and_is_listed(client):
    across(client, 0, [(0, H, 720_000)], job_id="on")
    result = client.month("2026-05")
    assert (result["totals"]["jobs"], result["jobs_running"]["jobs"]) == (0, 1)
    assert "/months/2026-05" in client.get("/months").text
    assert "1 job still runs" in written(client, "2026-05", "html")
    assert client.get("/v1/reports/monthly/2026-05?project=other").status_code == 404


def test_many_running_jobs_are_counted_and_the_largest_are_named(client):
    for n in range(25):
        across(client, 0, [(0, H, 3600.0 * (n + 1))], job_id=f"on-{n:02d}")
    running = client.month("2026-05")["jobs_running"]
    assert running["jobs"] == 25
    assert [row["job_id"] for row in running["named"]] == [f"on-{n:02d}" for n in range(24, 4, -1)]
    # 1 + 2 + ... + 25 = 325 Wh.
    assert value(running["energy_kwh"]) == pytest.approx(0.325, rel=1e-12)


# Random jobs: the sum of the months is the year, which is the sum of the jobs.

NAMES = ("NVIDIA L4", "NVIDIA A100-SXM4-80GB", "Unheard-of Accelerator 9000")
LENGTHS = st.one_of(st.floats(1, 600), st.floats(600, 3 * 86_400), st.floats(86_400, 70 * 86_400))


@st.composite
def job_plans(draw):
    """A job somewhere in 2026 or across its edges, in seconds after 1 January 2026."""
    length = draw(LENGTHS)
    edge_day = draw(st.sampled_from([0, 1, 31, 59, 60, 120, 181, 212, 304, 334, 365]))
    start = edge_day * 86_400 - length * draw(st.floats(0, 1)) - draw(st.sampled_from([0, 0, 40.5]))
    return {
        "start": round(start, 6),
        "length": round(length, 6),
        "devices": draw(st.integers(1, 3)),
        "seed": draw(st.integers(0, 2**32)),
        "units": draw(st.sampled_from([(), ("image",), ("image", "token")])),
    }


def records_of(plan, job_id, project):
    """The job's records: intervals of a day at most, with gaps, and counts now and then."""
    dice = random.Random(plan["seed"])
    writer = Writer(job=job_id, t0=datetime(2026, 1, 1, tzinfo=UTC))
    start, end = plan["start"], plan["start"] + plan["length"]
    head = {"project": project, "units": plan["units"], "zone": "DE", "pue": 1.1}
    records = [writer.job(started_at=writer.at(start), **head)]
    for n in range(plan["devices"]):
        records.append(writer.device(f"d-{n}", name=NAMES[n]))
        moment = start
        while moment < end or moment == start:
            upto = min(moment + dice.uniform(0.5, 1) * 86_400, max(end, start + 1))
            records.append(writer.interval(moment, upto, dice.random() * 1e6, f"d-{n}"))
            moment = upto + (dice.random() < 0.2) * dice.uniform(0, 90_000)
    for unit in plan["units"]:
        for at_s in sorted(dice.uniform(start, end) for _ in range(dice.randint(1, 4))):
            records.append(writer.count(dice.randint(1, 1000), unit, seconds=at_s))
    return [*records, writer.end(end)]


def days_of(start, end):
    """Every month that a span touches with the fraction of the span in it, day by day."""
    if start == end:
        yield f"{start:%Y-%m}", 1.0
    moment = start
    while moment < end:
        midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
        upto = min(end, midnight + timedelta(days=1))
        yield f"{moment:%Y-%m}", (upto - moment).total_seconds() / (end - start).total_seconds()
        moment = upto


def by_hand(records):
    """Energy [kWh] and R by month and term: divided by time, R over that since the count before."""
    result = defaultdict(float)
    begun = next(r.started_at for r in records if isinstance(r, JobRecord))
    since = {}
    for record in records:
        if isinstance(record, IntervalRecord):
            for name, share in days_of(record.start, record.end):
                result[name, "energy_kwh"] += record.energy_j * share / 3.6e6
        elif isinstance(record, CountRecord):
            for name, share in days_of(since.get(record.unit, begun), record.at):
                result[name, record.unit] += record.amount * share
            since[record.unit] = record.at
    return result


def send_in_parts(client, order, job_id, records):
    """The records in any order after a job line, some of them twice."""
    head, *shuffled = sorted(records, key=lambda record: not isinstance(record, JobRecord))
    order.shuffle(shuffled)
    shuffled.insert(0, head)
    client.take(shuffled[: order.randint(1, len(shuffled))])
    client.take(shuffled)


def months_of(client, project):
    """The reports of 2026 and of the months before and after that have jobs of the project."""
    around = [*(f"2025-{n:02d}" for n in range(9, 13)), *(f"2027-{n:02d}" for n in range(1, 5))]
    result = {}
    for name in (*YEAR, *around):
        query = {"project": project}
        answer = client.get(f"/v1/reports/monthly/{name}.json", query_string=query)
        if answer.json["totals"]["jobs"]:  # else nil
            result[name] = answer.json
    return result


def sums_of(months):
    """Every term and R, summed over month reports."""
    result = defaultdict(float)
    for document in months:
        for term in TERMS:
            result[term] += value(document["totals"][term])
        for unit, amount in counted(document).items():
            result[unit] += amount
    return dict(result)


def sums_of_jobs(documents):
    """Every term and R, summed over whole jobs."""
    result = defaultdict(float)
    for document in documents:
        for term in TERMS:
            result[term] += value(document[term])
        for row in document["sci"]:
            result[row["unit"]] += row["count"]
    return dict(result)


numbers = count()


@pytest.mark.long
@settings(
    max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(plans=st.lists(job_plans(), min_size=1, max_size=3), order=st.randoms(use_true_random=False))
def test_the_months_of_random_jobs_sum_to_the_year_and_to_the_jobs(client, clock, plans, order):
    clock.now = datetime(2027, 6, 1, tzinfo=UTC)
    project = f"p-{next(numbers)}"
    jobs = {
        f"{project}-{n}": records_of(plan, f"{project}-{n}", project)
        for n, plan in enumerate(plans)
    }
    for name, records in jobs.items():
        send_in_parts(client, order, name, records)
    months = months_of(client, project)
    documents = [client.get(f"/v1/jobs/{name}/report").json for name in jobs]
    expected = defaultdict(float)
    for records in jobs.values():
        for key, amount in by_hand(records).items():
            expected[key] += amount
    for (name, term), amount in expected.items():
        result = {
            **counted(months[name]),
            "energy_kwh": value(months[name]["totals"]["energy_kwh"]),
        }
        assert result[term] == near(amount)
    assert sums_of(months.values()) == near(sums_of_jobs(documents))
    year = sums_of(months[name] for name in YEAR if name in months)
    for term in ("operational_g", "embodied_g"):
        days = [day for document in documents for day in document["days"]]
        of_2026 = (value(day[term]) for day in days if day["day"].startswith("2026"))
        assert year.get(term, 0.0) == near(sum(of_2026))
    assert all(document["complete"] for document in months.values())
    assert sum(document["totals"]["jobs_ended"] for document in months.values()) == len(jobs)
    for records in jobs.values():
        assert client.take(records)["accepted"] == 0
    assert months_of(client, project) == months


def near(expected):
    return pytest.approx(expected, rel=1e-9, abs=1e-12)
