"""A real browser against a real server whose store was filled through the API."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.watch import DIRECT, Watch
from tests.browser.world import jobs
from tests.journals import body

CHROMIUM = os.environ.get("GRAMWATT_CHROMIUM", "/usr/bin/chromium")
QUIET = (
    "--no-sandbox",  # Chromium refuses to sandbox root, whom containers run as
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of `gramwatt serve` with every job of the tests' world in its store."""
    folder = tmp_path_factory.mktemp("site")
    line = [sys.executable, "-m", "gramwatt", "serve", "--port", "0"]
    surroundings = {"PATH": os.environ["PATH"], "HOME": str(folder), "GRAMWATT_HOME": str(folder)}
    log = folder / "log"
    with (
        log.open("w") as stream,
        subprocess.Popen(line, cwd=folder, env=surroundings, stderr=stream) as server,
    ):
        try:
            address = _address(server, log)
            fill(address)
            yield address
        finally:
            server.terminate()


def _address(server: subprocess.Popen[bytes], log: Path) -> str:
    for _ in range(600):
        found = re.search(r"gramwatt serves (\S+)", log.read_text())
        if found:
            return found[1]
        try:
            server.wait(0.05)
        except subprocess.TimeoutExpired:
            continue
        break
    raise AssertionError(f"the server did not start:\n{log.read_text()}")


def fill(address: str) -> None:
    """Send every journal as a meter would."""
    for journal in jobs(datetime.now(UTC)):
        request = urllib.request.Request(
            f"{address}/v1/jobs/{journal[0].job_id}/records",
            body(journal),
            {"Content-Type": "application/x-ndjson"},
        )
        with DIRECT.open(request, timeout=30) as answer:
            assert b'"rejected": []' in answer.read()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium; a machine without it fails here rather than skipping."""
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield made
        made.close()


@pytest.fixture
def watch(site: str) -> Watch:
    """What the pages of a test asked for and complained about."""
    return Watch(site)


@pytest.fixture
def page(browser: Browser, site: str, watch: Watch) -> Iterator[Page]:
    """A page at desktop width; whatever it did must have been quiet and local."""
    context = browser.new_context(base_url=site, viewport={"width": 1200, "height": 800})
    made = context.new_page()
    watch.over(made)
    yield made
    context.close()
    assert watch.faults == []
    assert watch.asked != []
