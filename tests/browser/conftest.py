"""A real browser against a real server whose store was filled through the API."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Browser, sync_playwright

from gramwatt.sci.records.records import EndRecord
from tests.browser.watch import Watch
from tests.browser.world import BUDGET_KG, jobs
from tests.journals import body
from tests.service.processes import get, post, send, serving

CHROMIUM = os.environ.get("GRAMWATT_CHROMIUM", "/usr/bin/chromium")
QUIET = (
    "--no-sandbox",  # Chromium refuses to sandbox root, whom containers run as
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@pytest.fixture(scope="session")
def served(tmp_path_factory):
    """`gramwatt serve` with every job of the tests' world: its address, and the link to get in."""
    settings = {"GRAMWATT_PROVISIONAL_EVERY_S": "0.1"}
    settings["GRAMWATT_SILENT_AFTER_S"] = "86400"  # however long the tests take
    with serving(tmp_path_factory.mktemp("site"), **settings) as (server, address):
        for journal in jobs(datetime.now(UTC)):
            job_id = journal[0].job_id
            assert send(address, job_id, body(journal))["rejected"] == []
            if any(isinstance(record, EndRecord) for record in journal):
                get(f"{address}/v1/jobs/{job_id}?wait=scored")
        post(f"{address}/v1/budgets", {"project": "language models", "limit_kg": BUDGET_KG})
        post(f"{address}/v1/keys", {"name": "ci", "scope": "ingest", "projects": ["many"]})
        yield address, server.says(r"open (\S+/login\S+)")[1]


@pytest.fixture(scope="session")
def site(served):
    """The server's address."""
    return served[0]


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's Chromium; a machine without it fails here rather than skipping."""
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield made
        made.close()


@pytest.fixture(scope="session")
def signed_in(served):
    """Return the cookies of a browser after the one-time sign-in link of `gramwatt serve`."""
    site, link = served
    with chromium() as browser:
        context = browser.new_context()
        page = context.new_page()
        page.goto(link)
        page.wait_for_url(f"{site}/")
        return context.storage_state()


@pytest.fixture(scope="module")
def browser(signed_in):
    """Return a browser for one file: its event loop runs in this thread, so that no test of
    asyncio can while it is open.
    """
    with chromium() as made:
        yield made


@pytest.fixture
def watch(site):
    """What the pages of a test asked for and complained about."""
    return Watch(site)


@pytest.fixture
def page(browser, site, watch, signed_in):
    """A page at desktop width; whatever it did must have been quiet and local."""
    context = browser.new_context(
        base_url=site, viewport={"width": 1200, "height": 800}, storage_state=signed_in
    )
    context.set_default_timeout(60_000)
    made = context.new_page()
    watch.over(made)
    yield made
    context.close()
    assert watch.faults == []
    assert watch.asked != []
