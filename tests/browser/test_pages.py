"""The pages as people get them: in Chromium, light and dark, wide and narrow, by mouse and keys."""

from __future__ import annotations

import re

import pytest

from tests.browser.addresses import visit
from tests.browser.world import LONG_ID, MANY, SCRIPT, UNBROKEN
from tests.service.processes import DIRECT, get

pytestmark = pytest.mark.long

SHOWN = SCRIPT.replace("\u202e", "")
TEXTS = (
    ", ".join(
        f"{text}:not(.swagger-ui *, .unseen, .skip)"
        for text in ("h1", "h2", "p", "th", "td", "small", "dd", "dt", "a", "button")
    )
    + ", .opblock-summary-path, .opblock-summary-description"
)
FOCUSED = """() => {
  const e = document.activeElement;
  return e.getAttribute("aria-label") || e.name || e.innerText.replace(/\\s/g, " ").trim();
}"""
NAVIGATION = (
    *("Overview", "Jobs", "Projects", "Models", "Budgets", "Reports", "Planner", "Catalog"),
    *("Schedules", "Keys", "Settings", "API"),
)
LUMINANCE = """selector => {
  const part = c => { c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
  const light = colour => {
    const [r, g, b] = colour.match(/[0-9.]+/g).map(Number);
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const behind = e => {
    for (; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (colour.startsWith("rgb(")) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  return [...document.querySelectorAll(selector)].map(e => [
    e.innerText.slice(0, 40), light(getComputedStyle(e).color), light(behind(e))]);
}"""


def names(page):
    """The jobs in the list."""
    return page.locator("tbody th a").all_inner_texts()


def test_the_list_names_every_column_and_heads_every_row(page):
    visit(page, "/jobs")
    assert page.get_by_role("heading", level=1).all_inner_texts() == ["Jobs"]
    titles = page.get_by_role("columnheader").all_inner_texts()
    assert [re.sub(r"\W", "", title) for title in titles] == [
        *("Job", "State", "Started", "Time", "Energy", "CO2e", "SCI", "Data")
    ]
    assert page.get_by_role("rowheader").count() == 50
    assert names(page)[:4] == ["at work", UNBROKEN, SHOWN, "uncounted"]
    row = page.get_by_role("row").filter(has_text="pretrain")
    # 2 x 36 kJ x 60 of the first GPUs and 14 x 1.8 MJ of the others are 8.2 kWh, +-5 % for all.
    for text in ("completed", "8.20\u202fkWh", "7.79 to 8.61\u202fkWh", "1 h 0 min"):
        assert text in row.inner_text()


def test_filters_choose_jobs_and_stay_chosen(page, site):
    visit(page, "/jobs")
    page.get_by_label("State").select_option("failed")
    page.get_by_role("button", name="Show").click()
    assert names(page) == ["broken"]
    assert page.get_by_label("State").input_value() == "failed"
    page.get_by_label("Project").select_option("a&b=c#d")
    page.get_by_role("button", name="Show").click()
    assert page.locator(".empty").inner_text() == "No job fits. Show all jobs"
    assert page.locator("details.more").get_attribute("open") is None
    page.get_by_label("State").select_option("")
    page.get_by_role("button", name="Show").click()
    assert names(page) == [SHOWN]
    page.get_by_label("Search").fill("PRETR")
    page.get_by_label("Project").select_option("")
    page.get_by_role("button", name="Show").click()
    assert names(page) == ["pretrain"]
    visit(page, "/jobs?project=nobody")
    page.get_by_role("link", name="Show all jobs").first.click()
    assert page.url == f"{site}/jobs"


def test_pages_of_the_list_hold_each_job_once_and_keep_the_filter(page):
    visit(page, "/jobs?project=many")
    first = page.locator("tbody th a").evaluate_all("all => all.map(e => e.pathname)")
    page.get_by_role("link", name="Next page").click()
    second = page.locator("tbody th a").evaluate_all("all => all.map(e => e.pathname)")
    assert (len(first), len(second)) == (50, MANY - 50)
    assert first + second == [f"/jobs/many-{n:02}" for n in reversed(range(MANY))]
    assert page.get_by_label("Project").input_value() == "many"
    assert page.get_by_role("link", name="Next page").count() == 0
    page.get_by_role("link", name="First page").click()
    page.locator("tbody th a").nth(49).wait_for()  # the page comes in parts
    assert len(names(page)) == 50


@pytest.mark.parametrize("job_id", ["cluster", "no-zone", "running", LONG_ID])
def test_a_job_s_report_has_headings_and_headed_tables(page, job_id):
    visit(page, f"/jobs/{job_id}?full=true")
    assert page.get_by_role("heading", level=1).count() == 1
    sections = page.get_by_role("heading", level=2).all_inner_texts()
    wanted = ["Summary", "Devices", "Data quality", "Notices", "Sources", "Method and boundary"]
    assert [name for name in sections if name in wanted] == wanted
    tables = page.get_by_role("table")
    assert tables.count() >= 4
    for table in tables.all():
        columns = table.get_by_role("columnheader").count()
        rows = table.get_by_role("row").count() - 1
        assert table.get_by_role("rowheader").count() == rows >= 1
        assert table.get_by_role("cell").count() == rows * (columns - 1)
    contents = page.get_by_role("navigation", name="Contents", include_hidden=True)
    assert (
        contents.locator("a").evaluate_all(
            "all => all.map(e => document.getElementById(e.hash.slice(1)).innerText)"
        )
        == sections
    )


def test_names_that_are_markup_are_shown_as_they_are(page):
    visit(page, "/jobs/hostile")
    assert page.get_by_role("heading", level=1).inner_text() == f"Energy and carbon of {SHOWN}"
    assert page.title() == f"Energy and carbon of {SHOWN}"
    visit(page, "/jobs/hostile?full=true")
    assert f"{SHOWN} = {SHOWN}" in "\n".join(page.locator(".facts").all_inner_texts())
    drawn = page.locator("img, script").evaluate_all(
        "all => all.map(e => e.type || e.getAttribute('src'))"
    )
    known = {"application/json", "/static/charts.js", "/static/vega/vega.min.js"}
    assert set(drawn) - known == {"/static/htmx/htmx.min.js", "/static/icon.svg"}
    visit(page, "/months/2026-05?full=true")
    assert SHOWN in page.locator("main").inner_text()
    visit(page, "/jobs")
    assert page.get_by_role("link", name=SHOWN).get_attribute("href") == "/jobs/hostile"


def test_what_is_not_certain_is_said_on_the_report(page):
    visit(page, "/jobs/no-zone")
    assert "not an SCI score" in page.locator(".facts").first.inner_text()
    assert "zone-unknown" in page.locator(".notice.warning .code").all_inner_texts()
    visit(page, "/jobs/running")
    assert "running" in page.locator(".subtitle").inner_text()
    visit(page, "/jobs/failed")
    assert "failed" in page.locator(".subtitle").inner_text()


def test_months_lead_to_their_reports(page, site):
    visit(page, "/")
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Reports").click()
    assert page.get_by_role("heading", level=1).inner_text() == "Reports"
    assert page.locator(".cards li > a").all_inner_texts()[-3:] == [
        *("May 2026", "April 2026", "March 2026")
    ]
    page.get_by_role("link", name="May 2026", exact=True).click()
    assert page.url == f"{site}/months/2026-05"
    assert page.get_by_role("heading", level=1).inner_text().endswith("May 2026")
    page.get_by_role("link", name="Jobs with the most carbon").click()
    assert page.get_by_role("table", name="Top jobs").get_by_role("row").count() == 8
    page.get_by_role("link", name="Reports").click()
    assert page.url == f"{site}/months"


def test_a_month_of_one_project_keeps_its_project_in_every_form(page, site):
    visit(page, "/months/2026-05?project=a%26b%3Dc%23d")
    link = page.get_by_role("link", name="JSON").get_attribute("href")
    assert get(f"{site}{link}")["project"] == "a&b=c#d"


def test_every_link_of_the_pages_works(page, site):
    links = set()
    lists = ("/jobs", "/compare?after=cluster", "/projects", "/models", "/months")
    for address in ("/?month=2026-05", *lists, "/months/2026-05", "/jobs/cluster"):
        visit(page, address)
        links |= set(page.locator("a").evaluate_all("all => all.map(e => e.href.split('#')[0])"))
    # The last one of the sweep stands for all of it, May for all months; sources lie elsewhere.
    links = {link for link in links if "many" not in link} | {f"{site}/jobs/many-50"}
    links = {link for link in links if "2026-05" in link or not re.search(r"20\d\d-\d\d", link)}
    elsewhere = {link for link in links if not link.startswith(f"{site}/")}
    assert all(link.startswith("https://") for link in elsewhere)
    links -= elsewhere
    forms = ("report.pdf", "report.json", "revisions")
    assert {f"{site}/v1/jobs/cluster/{form}" for form in forms} < links
    assert {f"{site}/v1/reports/monthly/2026-05.{form}" for form in ("pdf", "xlsx")} < links
    for link in sorted(links):
        with DIRECT.open(link, timeout=30) as answer:
            assert (link, answer.status) == (link, 200)


def test_the_api_s_page_draws_every_operation(page, site):
    paths = get(f"{site}/openapi.json")["paths"]
    visit(page, "/docs")
    shown = page.locator(".opblock-summary-path").evaluate_all(
        "all => all.map(e => e.dataset.path)"
    )
    assert sorted(shown) == sorted(path for path, methods in paths.items() for _ in methods)
    assert page.get_by_role("heading", level=1).inner_text().startswith("gramwatt")
    page.locator("[data-path='/healthz']").click()
    page.get_by_role("button", name="Try it out").click()
    page.get_by_role("button", name="Execute").click()
    page.locator(".live-responses-table .response-col_status", has_text="200").wait_for()


@pytest.mark.parametrize("address", ["/", "/jobs", "/jobs/no-zone", "/months/2026-05", "/docs"])
def test_texts_stand_out_in_light_and_dark(page, address):
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        visit(page, address)
        found = page.evaluate(LUMINANCE, TEXTS)
        assert len(found) >= 5
        for words, ink, paper in found:
            light, deep = max(ink, paper), min(ink, paper)
            # WCAG 2.2, success criterion 1.4.3: 4.5 to 1.
            assert (light + 0.05) / (deep + 0.05) >= 4.5, (scheme, words, ink, paper)
        page_light = page.evaluate(LUMINANCE, "main")[0][2]
        assert (page_light > 0.5) == (scheme == "light")


@pytest.mark.parametrize(
    "address", ["/jobs", "/?month=2026-05", "/catalog", "/months/2026-05", f"/jobs/{LONG_ID}"]
)
def test_at_1200_pixels_every_table_shows_all_its_columns(page, address):
    visit(page, address)
    cut = page.evaluate(
        """[...document.querySelectorAll(".scroll")].filter(e => e.scrollWidth > e.clientWidth)
             .map(e => e.getAttribute("aria-label"))"""
    )
    assert cut == []


@pytest.mark.parametrize("address", ["/", "/jobs", "/projects", "/months/2026-05?full=true"])
def test_at_390_pixels_no_figure_lies_beyond_the_edge(page, address):
    page.set_viewport_size({"width": 390, "height": 800})
    visit(page, address)
    assert page.locator("td:visible", has_text="CO2e").count() > 0
    ends = page.locator("td:visible").evaluate_all(
        "all => all.map(e => e.getBoundingClientRect().right)"
    )
    assert max(ends) <= 390


@pytest.mark.parametrize("address", ["/", "/months/2026-05"])
def test_a_phone_has_its_menu_behind_one_button(page, address):
    page.set_viewport_size({"width": 390, "height": 800})
    visit(page, address)
    menu = page.get_by_role("navigation", name="Main")
    assert not menu.is_visible()
    page.locator("label[for=menu]").click()
    menu.get_by_role("link", name="Budgets").click()
    assert page.get_by_role("heading", level=1).inner_text().startswith("Budgets")


def test_a_phone_shows_a_job_in_three_lines_and_the_newest_month(page):
    page.set_viewport_size({"width": 390, "height": 800})
    visit(page, "/jobs")
    row = page.locator("tbody tr").filter(has_text="pretrain")
    assert row.evaluate("e => e.offsetHeight") < 110
    for text in ("completed", "8.20\u202fkWh", "1 h 0 min", "language models"):
        assert text in row.inner_text()
    visit(page, "/months/2026-05")
    trend = page.locator(".chart .slim").first
    last = trend.locator("text", has_text="May").bounding_box()
    assert last["x"] + last["width"] <= 390
    assert last["height"] >= 10
    assert trend.evaluate("e => e.scrollWidth <= e.clientWidth")


def test_ticked_runs_are_compared(page):
    visit(page, "/jobs")
    for name in ("Compare unplaced no-zone", "Compare broken failed"):
        page.get_by_role("checkbox", name=name).check()
    page.get_by_role("button", name="Compare ticked runs").click()
    page.wait_for_url("**/compare?**")
    for side, job_id in (("before", "no-zone"), ("after", "failed")):
        assert page.locator(f"input[name={side}]:checked").input_value() == job_id


def test_a_name_of_any_length_takes_two_lines_in_the_list(page):
    visit(page, "/jobs")
    heights = page.locator("tbody tr").evaluate_all("all => all.map(e => e.offsetHeight)")
    assert max(heights) < 120


def tabbed(page, address, presses):
    """What has the focus after each press of the tabulator."""
    visit(page, address)
    order = []
    for _ in range(presses):
        page.keyboard.press("Tab")
        order.append(page.evaluate(FOCUSED))
    return order


def test_keys_go_through_the_list_in_reading_order(page):
    assert tabbed(page, "/jobs", 27) == [
        *("Skip to content", "gramwatt", *NAVIGATION),
        *("q", "project", "state", "Show", "More filters", "Compare ticked runs", "Table of jobs"),
        *("Started", "Time", "Energy", "CO2e", "SCI", "Compare at work running"),
    ]
    page.keyboard.press("Tab")
    assert page.evaluate(FOCUSED) == "at work"
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs/running")


def test_keys_go_through_a_report_in_reading_order(page):
    assert tabbed(page, "/jobs/cluster", 21) == [
        *("Skip to the report", "gramwatt", *NAVIGATION),
        *("Whole report", "Compare", "PDF", "Whole PDF", "HTML", "JSON", "Revisions"),
    ]
    tops = page.evaluate(
        """() => [...document.querySelectorAll("main a, main summary, main [tabindex]")]
             .filter(e => e.checkVisibility()).map(e => e.getBoundingClientRect().top)"""
    )
    assert tops == sorted(tops)
    visit(page, "/jobs/cluster")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#report"


@pytest.mark.parametrize(
    ("address", "status", "says"),
    [
        ("/jobs/none", 404, "unknown job 'none'"),
        ("/months/2026-13", 422, "path.month"),
        ("/months/2199-01", 404, "2199-01 has not begun"),
        ("/jobs?state=happy", 422, "query.state"),
        ("/jobs?cursor=x", 422, "cursor"),
        ("/?month=May", 422, "query.month"),
        ("/compare?before=none", 404, "unknown job 'none'"),
        ("/nothing", 404, ""),
    ],
)
def test_a_refusal_is_a_page_that_leads_back(page, site, watch, address, status, says):
    watch.expected_status = status
    assert page.goto(address).status == status
    assert says in page.locator("main").inner_text()
    assert page.get_by_role("heading", level=1).count() == 1
    page.get_by_role("link", name="All jobs").click()
    assert page.url == f"{site}/jobs"
