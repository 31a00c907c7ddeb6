"""What holds of every page: accessible, nothing cut, readable without script, printable."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from urllib.request import Request

import pytest

from tests.browser.addresses import EVERY, PAGES, REPORTS, visit
from tests.browser.world import BUDGET_KG
from tests.journals import MINUTE, Writer, body, journal
from tests.service.processes import DIRECT, eventually, get, send

AXE = (Path(__file__).parent / "axe" / "axe.min.js").read_text("utf-8")
CHECK = """async rules => (await axe.run(
  {exclude: [".swagger-ui"]},
  {resultTypes: ["violations"], runOnly: rules})).violations.flatMap(
    found => found.nodes.map(node => `${found.id}: ${node.target} ${node.failureSummary}`))"""
SOON = ("/", "/jobs", "/jobs/cluster", "/months/2026-05", "/planner")
"""The pages that are looked at whenever anything is changed, the others with --long."""
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def faults(page, rules):
    """What axe finds wrong with the page as it is."""
    return page.evaluate(CHECK, rules)


@pytest.mark.parametrize(
    "address",
    [pytest.param(address, marks=[] if address in SOON else pytest.mark.long) for address in EVERY],
)
def test_a_page_is_accessible_light_and_dark_and_at_a_phone_s_width(page, address):
    visit(page, address)
    page.evaluate(AXE)
    assert faults(page, RULES) == []
    page.emulate_media(color_scheme="dark")
    assert faults(page, {"type": "rule", "values": ["color-contrast"]}) == []
    for width in (320, 390, 1200):
        page.set_viewport_size({"width": width, "height": 800})
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide == width
        # What is wider than the page must stand in something that scrolls.
        outside = page.evaluate(
            """width => [...document.querySelectorAll("main *, header *, nav *")].filter(e =>
                 e.getBoundingClientRect().right > width + 1 && e.innerText &&
                 !e.closest(".scroll, .chart, .swagger-ui")).map(e => e.innerText.slice(0, 40))""",
            width,
        )
        assert (width, outside) == (width, [])


@pytest.mark.long
def test_every_page_reads_without_script(browser, site, signed_in):
    context = browser.new_context(base_url=site, storage_state=signed_in, java_script_enabled=False)
    page = context.new_page()
    for address in (*PAGES, *(f"/jobs/{name}" for name in REPORTS)):
        assert page.goto(address).status == 200, address
        assert page.locator("h1").count() == 1, address
        assert page.locator("main").inner_text().count("\n") >= 2, address
        assert page.get_by_role("navigation", name="Main").get_by_role("link").count() == 12
    page.goto("/planner")
    page.get_by_label("Duration").fill("4")
    page.get_by_label("Grid zone").fill("FR")
    page.get_by_role("button", name="Plan").click()
    assert page.get_by_role("table").get_by_role("rowheader").all_inner_texts() == ["FR"]
    page.get_by_label("Grid zone").fill("nowhere")
    page.get_by_role("button", name="Plan").click()
    assert "nowhere" in page.get_by_role("alert").inner_text()
    assert page.get_by_label("Duration").input_value() == "4"
    context.close()


def test_print_leaves_out_what_is_only_for_the_screen(page):
    visit(page, "/?month=2026-05")
    page.emulate_media(media="print")
    assert not page.get_by_role("navigation", name="Main").is_visible()
    assert not page.get_by_role("button", name="Show").is_visible()
    assert page.get_by_role("heading", level=1).is_visible()
    assert page.locator(".tiles").first.is_visible()


def test_the_overview_has_the_month_s_figures_as_its_report_has(page, site):
    month = get(f"{site}/v1/reports/monthly/2026-05")
    visit(page, "/?month=2026-05")
    assert page.get_by_role("heading", level=1).inner_text() == "May 2026"
    carbon = month["totals"]["total_g"]["value"]
    assert f"{round(carbon, -1):.0f}\u202fg\u00a0CO2e" in page.locator(".tiles .lead").inner_text()
    assert f"{month['totals']['jobs']} jobs" in page.locator(".tiles .lead").inner_text()
    # The first project of the table is that of the eight-GPU job, with a bar to its budget.
    first = page.get_by_role("table").first.get_by_role("row").nth(1).inner_text()
    assert first.startswith("language models")
    own = get(f"{site}/v1/reports/monthly/2026-05?project=language%20models")
    spent = own["totals"]["total_g"]["value"] / 1000 / BUDGET_KG
    assert f"budget 10\u202fkg\u00a0CO2e, {spent:.0%} of it".replace("%", "\u202f%") in first
    outcomes = {
        row.get_by_role("rowheader").inner_text(): int(row.get_by_role("cell").first.inner_text())
        for row in page.get_by_role("region", name="outcomes").get_by_role("row").all()[1:]
    }
    known = {row["outcome"]: row["jobs"] for row in month["ledger"]}
    assert (outcomes["Failed"], outcomes["Stopped"]) == (1, 1) == (known["failed"], known["killed"])
    assert outcomes["Completed"] == known["completed"]
    page.get_by_role("link", name="language models").click()
    assert page.get_by_role("heading", name="Budget").count() == 1
    assert page.get_by_role("combobox", name="Project").input_value() == "language models"


def test_the_trend_leads_from_month_to_month(page):
    visit(page, "/?month=2026-05")
    columns = page.locator(".columns a")
    assert columns.count() == 12
    shown = columns.evaluate_all("all => all.map(e => e.innerText.split(/\\s/)[0])")
    assert shown[-4:] == ["Feb", "Mar", "Apr", "May"]
    assert columns.nth(8).get_attribute("title") == "February 2026: no job"
    columns.nth(10).click()
    assert page.get_by_role("heading", level=1).inner_text() == "April 2026"
    page.get_by_role("link", name="May 2026").first.click()
    assert page.get_by_role("heading", level=1).inner_text() == "May 2026"


def shown_in_time(page, words):
    """Let the page's time pass until it shows the words: a busy server scores late."""

    def looked():
        page.clock.run_for(5_500)
        return words.count()

    eventually(looked, 60)


def test_a_running_job_shows_its_figures_anew_and_then_that_it_ended(page, site):
    start = datetime.now(UTC) - 5 * MINUTE
    begun = journal("watched", start=start, end_state=None)
    send(site, "watched", body(begun))
    page.clock.install()
    visit(page, "/jobs/watched")
    live = page.get_by_role("region", name="As of now")
    # 3 minutes at 600 W are 30 Wh; two more make 50.
    assert "30.0\u202fWh" in live.inner_text()
    meter = Writer("w1", "n1", "watched", t0=start, first_seq=len(begun) + 1)
    more = [meter.interval(60 * n, 60 * (n + 1), 36_000, "GPU-n1") for n in (3, 4)]
    assert send(site, "watched", body(more))["rejected"] == []
    shown_in_time(page, live.get_by_text("50.0\u202fWh"))
    assert send(site, "watched", body([meter.end(300)]))["rejected"] == []
    get(f"{site}/v1/jobs/watched?wait=scored")
    shown_in_time(page, page.get_by_text("Show the whole report"))
    assert page.locator("#live").inner_text().startswith("completed")
    with DIRECT.open(Request(f"{site}/v1/jobs/watched", method="DELETE"), timeout=30) as answer:
        assert answer.status == 200


@pytest.mark.parametrize(
    "address", ["/v1/reports/monthly/2026-05.html", "/v1/jobs/cluster/report.html?full=1"]
)
def test_a_report_of_the_api_has_its_styles_in_a_browser(page, address):
    """The policy in its header allows what the policy in the report does."""
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(address)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    font = page.evaluate("getComputedStyle(document.querySelector('h1')).fontFamily")
    assert font.startswith('"Open Sans"')


@pytest.mark.parametrize("address", ["/intensity/FR", "/jobs/cluster"])
def test_a_wide_window_gives_its_width_to_the_report(page, address):
    """One with a list of its sections beside it, and one too short to have it."""
    page.set_viewport_size({"width": 1280, "height": 800})
    visit(page, address)
    assert page.locator("#report").bounding_box()["width"] > 800
