"""Every page of the site over the tests' world, and how a test goes there."""

from __future__ import annotations

from playwright.sync_api import Page

from tests.browser.world import LONG_ID, MODEL

REPORTS = ("cluster", "no-zone", "failed", "running", "uncounted", "hostile", LONG_ID)
PAGES = (
    "/",
    "/?month=2026-05",
    "/?month=2026-05&project=language%20models",
    "/jobs",
    "/jobs?project=nobody&kind=training",
    "/compare?before=no-zone&after=cluster",
    "/compare?before=failed&before=killed&after=no-zone",
    "/compare?after=cluster",
    "/projects",
    "/models",
    f"/models?model={MODEL}",
    "/months",
    "/budgets",
    "/example",
    "/years/2026",
    "/planner",
    "/catalog",
    "/catalog?kind=instances",
    "/catalog?kind=misquoted",
    "/keys",
    "/settings",
    "/schedules",
    "/glossary",
)
EVERY = (
    *PAGES,
    "/months/2026-05",
    "/intensity/FR",
    "/docs",
    *(f"/jobs/{job_id}" for job_id in REPORTS),
)


def visit(page: Page, address: str) -> None:
    """Go to a page, and wait for what a script draws."""
    page.goto(address)
    if address == "/docs":
        page.wait_for_selector(".opblock")
