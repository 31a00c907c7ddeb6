"""Badges: the month's figure with its unit, safe texts, and a key unless the settings say not."""

import xml.etree.ElementTree as ET

import pytest
import sqlalchemy as sa

from gramwatt.reports.badge import NOTHING_FILL
from gramwatt.service.config import from_environment
from gramwatt.service.jobs.ingest import ingest
from gramwatt.service.store.months import MonthSum
from gramwatt.service.tasks.table import TASKS
from tests.journals import journal, lines
from tests.service.keyed import NO_KEY, add, bearer, client_of

SUM = TASKS["newest-months"].action
SVG = "{http://www.w3.org/2000/svg}"


def texts(answer):
    """The two halves, parsed as XML."""
    assert (answer.status_code, answer.mimetype) == (200, "image/svg+xml")
    return [node.text for node in ET.fromstring(answer.data).iter(f"{SVG}text")]


@pytest.fixture
def vision(light, client):
    for n in (1, 2):
        add(light, f"job-{n}", pue=1.2)
    SUM(light)
    return client


def test_it_shows_carbon_per_the_only_unit_of_the_newest_month(vision):
    # The clock stands in June; May is the newest month with data. sum(C) / sum(R) over 60 images.
    month = vision.get("/v1/reports/monthly/2026-05?project=vision").json
    grams = month["totals"]["total_g"]["value"] / 60
    answer = vision.get("/v1/badges/vision.svg")
    label, value = texts(answer)
    assert label == "vision"
    assert value == f"{grams * 1000:.0f} mg CO2e/image, 2026-05, estimated"
    low, high = (1000 * month["totals"]["total_g"][end] / 60 for end in ("low", "high"))
    title = ET.fromstring(answer.data).find(f"{SVG}title").text
    assert f"({float(f'{low:.2g}'):.0f} to {float(f'{high:.2g}'):.0f})" in title
    tag = {"If-None-Match": answer.headers["ETag"]}
    assert vision.get("/v1/badges/vision.svg", headers=tag).status_code == 304


def test_a_project_of_several_units_shows_its_total_unless_one_is_asked_for(vision, light):
    add(light, "job-3", units=("image",), pue=1.2, minutes=2)
    total = journal("job-4", project="mixed", pue=1.2)
    ingest(light, "job-4", lines(total))
    ingest(light, "job-5", lines([*journal("job-5", project="mixed", units=("token",), pue=1.2)]))
    SUM(light)
    assert "/image, 2026-05" in texts(vision.get("/v1/badges/mixed.svg?unit=image"))[1]
    assert texts(vision.get("/v1/badges/mixed.svg?unit=token"))[1].startswith("no token in 2026-05")


def test_a_project_without_data_says_so_and_is_not_known_from_one_that_is_hidden(vision):
    assert texts(vision.get("/v1/badges/nothing.svg")) == ["nothing", "no data yet"]
    key = vision.post(
        "/v1/keys", json={"name": "other", "scope": "read", "projects": ["speech"]}
    ).json["key"]
    bound = bearer(key)
    assert texts(vision.get("/v1/badges/vision.svg", headers=bound)) == ["vision", "no data yet"]


def test_a_badge_makes_no_sum_and_says_so_where_none_is_stored(light, client):
    add(light, "job-1", pue=1.2)
    public = client_of(light, public_badges=frozenset({"vision"}))
    answer = public.get("/v1/badges/vision.svg", headers=NO_KEY)
    assert texts(answer) == ["vision", "no figure yet"]
    assert NOTHING_FILL in answer.text
    with light.store.read() as session:
        assert session.scalars(sa.select(MonthSum.document)).all() == [None, None]
    SUM(light)
    before = public.get("/v1/badges/vision.svg", headers=NO_KEY)
    assert "mg CO2e/image, 2026-05, " in texts(before)[1]
    # What was stored last is shown until it is summed again, as of a month that may change.
    add(light, "job-2", power_w=900.0, pue=1.2)
    figure = texts(before)[1].partition(",")[0]
    assert texts(public.get("/v1/badges/vision.svg", headers=NO_KEY))[1].startswith(
        f"{figure}, 2026-05 so far"
    )
    SUM(light)
    after = texts(public.get("/v1/badges/vision.svg", headers=NO_KEY))[1]
    assert ("so far" in after, after.partition(",")[0] == figure) == (False, False)


def test_without_a_key_only_public_projects_answer_and_only_with_the_badge(vision, light):
    assert vision.get("/v1/badges/vision.svg", headers=NO_KEY).status_code == 401
    public = client_of(light, public_badges=frozenset({"vision"}))
    assert "mg CO2e/image" in texts(public.get("/v1/badges/vision.svg", headers=NO_KEY))[1]
    assert public.get("/v1/badges/speech.svg", headers=NO_KEY).status_code == 401
    for address in ("/v1/jobs?project=vision", "/v1/jobs/job-1", "/"):
        assert public.get(address, headers=NO_KEY).status_code == 401
    outside = {**NO_KEY, "Host": "evil.example"}
    assert public.get("/v1/badges/vision.svg", headers=outside).status_code == 403


def test_any_name_can_be_public_and_stands_encoded_in_setting_and_address(light):
    name = "LLM, the//best 100%"
    add(light, "job-1", project=name, pue=1.2)
    SUM(light)
    written = "LLM%2C%20the%2F%2Fbest%20100%25"
    settings = from_environment({"GRAMWATT_PUBLIC_BADGES": f"vision, {written}"})
    assert settings.public_badges == {"vision", name}
    public = client_of(light, public_badges=settings.public_badges)
    label, value = texts(public.get(f"/v1/badges/{written}.svg", headers=NO_KEY))
    assert (label, "mg CO2e/image" in value) == (name, True)
    assert public.get("/v1/badges/LLM.svg", headers=NO_KEY).status_code == 401


@pytest.mark.parametrize(
    "name", ["<script>alert(1)</script>"[:8], '"><b>', "&amp;", "\u202egnp.exe", "図" * 200, "🚀 x"]
)
def test_a_hostile_name_stays_a_text(light, client, name):
    add(light, "job-1", project=name, pue=1.2)
    SUM(light)
    answer = client.get("/v1/badges/" + name + ".svg")
    root = ET.fromstring(answer.data)
    assert {node.tag.removeprefix(SVG) for node in root.iter()} <= {
        "svg",
        "title",
        "rect",
        "g",
        "text",
    }
    label, value = texts(answer)
    assert len(label) <= 30
    assert "\u202e" not in answer.text
    assert "mg CO2e/image" in value
