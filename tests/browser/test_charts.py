"""Charts that a browser draws anew: what a pointer finds, when, and under which policy."""

from __future__ import annotations

import re

import pytest

from tests.service.processes import get

pytestmark = pytest.mark.long

VEGA = "/static/vega/vega.min.js"


def anew(page, chart):
    """Scroll a chart into view, and wait until it is interactive."""
    chart.scroll_into_view_if_needed()
    chart.locator("xpath=self::*[contains(@class, 'interactive')]").wait_for()
    return chart


def tip_at(page, mark):
    """What is shown when the pointer is in the middle of a mark, by lines."""
    mark.scroll_into_view_if_needed()
    box = mark.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.locator(".tip:not([hidden])").wait_for()
    return page.locator(".tip").inner_text().split("\n")


@pytest.mark.parametrize("address", ["/jobs/cluster", "/months/2026-05", "/intensity/FR"])
def test_every_chart_is_drawn_anew_without_eval(page, site, watch, address):
    policy = page.goto(address).headers["content-security-policy"]
    assert "unsafe-eval" not in policy
    assert "script-src 'self';" in policy
    charts = page.locator(".chart").all()
    assert charts
    for chart in charts:
        anew(page, chart)
        assert chart.locator("svg:not(.slim svg)").count() == 1
        assert chart.locator(".mark-rect path, .mark-rule line").count() >= 1
    assert watch.asked.count(f"{site}{VEGA}") == 1


def test_a_pointer_on_a_bar_finds_value_range_unit_and_kind(page, site):
    job = get(f"{site}/v1/jobs/cluster/report.json")
    page.goto("/jobs/cluster")
    why = anew(page, page.locator(".chart").first)
    # The bars of the waterfall from above: operational, embodied, total carbon.
    name, value, span, kind = tip_at(page, why.locator(".mark-rect path").nth(1))
    embodied = job["embodied_g"]
    assert name == "Making the hardware"
    amount, low, high = (
        float(n.replace("\u202f", ""))
        for n in (*re.findall(r"[\d\u202f]+", value)[:1], *re.findall(r"\d[\d\u202f]*", span)[:2])
    )
    # Two significant digits: within 5 %.
    for printed, known in ((amount, "value"), (low, "low"), (high, "high")):
        assert printed == pytest.approx(embodied[known], rel=0.05)
    assert value.endswith("g\u00a0CO2e")
    assert kind == embodied["kind"] == "estimated"
    page.keyboard.press("Escape")
    assert page.locator(".tip").is_hidden()


def test_what_is_estimated_is_striped_and_what_is_metered_is_not(page):
    page.goto("/jobs/cluster")
    why = page.locator(".chart").first
    for show in (lambda: why, lambda: anew(page, why)):
        show()
        fills = why.locator(".mark-rect path").evaluate_all(
            "all => all.map(e => e.getAttribute('fill') || e.style.fill)"
        )
        # Electricity was metered whole; hardware, and so the total, come from a model.
        assert ["estimated-0" in fill for fill in fills[:3]] == [False, True, True]
        assert page.locator("pattern#estimated-0").count() == 1


def test_a_chart_follows_the_dark_theme_and_the_width_of_its_place(page):
    page.set_viewport_size({"width": 390, "height": 800})
    page.emulate_media(color_scheme="dark")
    page.goto("/jobs/cluster")
    why = anew(page, page.locator(".chart").first)
    colour = why.locator(".mark-rect path").first.evaluate("e => getComputedStyle(e).fill")
    assert colour == "rgb(79, 180, 143)"  # --c0 of the dark theme, #4fb48f
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_a_page_without_charts_loads_no_chart_library(page, site, watch):
    for address in ("/jobs", "/catalog", "/projects"):
        page.goto(address)
    page.wait_for_load_state("networkidle")
    assert [url for url in watch.asked if "vega" in url or "charts.js" in url] == []


def test_without_the_library_the_drawing_stays(page):
    page.route(f"**{VEGA}", lambda route: route.fulfill(body="", content_type="text/javascript"))
    with page.expect_response(f"**{VEGA}"):  # which may come before all of the page
        page.goto("/jobs/cluster")
        page.locator(".chart").first.scroll_into_view_if_needed()
    page.wait_for_function("() => document.scripts.length > 2")
    assert page.locator(".chart").first.locator("svg text").count() >= 3
    assert page.locator(".chart.interactive").count() == 0
    page.get_by_text("Data behind this chart").first.click()
    assert page.get_by_role("rowheader", name="Total", exact=True).is_visible()


def test_estimated_figures_are_marked_for_eyes_and_ears(page, site):
    page.goto("/jobs?q=pretrain")
    row = page.get_by_role("row").filter(has_text="pretrain")
    energy, carbon = row.get_by_role("cell").nth(4), row.get_by_role("cell").nth(5)
    job = get(f"{site}/v1/jobs/cluster")
    assert (job["energy_kwh"]["kind"], job["total_g"]["kind"]) == ("measured", "estimated")
    assert energy.locator(".mark").count() == 0
    assert carbon.locator(".mark").all_text_contents() == ["≈ estimated"]
    assert "≈ estimated: " in page.locator("footer").inner_text()
    page.goto("/jobs/cluster")
    tiles = page.locator(".figures.lead dd")
    assert ["≈" in text for text in tiles.all_inner_texts()] == [True, True]
    assert page.locator(".figures.plain dd").first.locator(".mark").count() == 0


def test_a_word_leads_to_what_it_means_once(page, site):
    page.goto("/jobs/cluster")
    links = page.locator("main a.term").evaluate_all("all => all.map(e => e.hash)")
    assert len(links) == len(set(links)) >= 8
    assert {"#word-sci", "#word-pue", "#word-embodied"} < set(links)
    page.locator("a.term", has_text="PUE").click()
    assert page.url == f"{site}/jobs/cluster#word-pue"
    assert page.locator("#word-pue + dd").inner_text().startswith("Power usage effectiveness")
    page.goto("/jobs")
    page.get_by_role("columnheader", name="SCI").get_by_role("link").click()
    assert page.url == f"{site}/glossary#sci"
    assert "Software Carbon Intensity" in page.locator("#sci").inner_text()
