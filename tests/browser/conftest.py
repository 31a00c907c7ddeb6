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
from typing import Any

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
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """`gramwatt serve` with every job of the tests' world: its address, and the link to get in."""
    folder = tmp_path_factory.mktemp("site")
    line = [sys.executable, "-m", "gramwatt", "serve", "--port", "0"]
    surroundings = {"PATH": os.environ["PATH"], "HOME": str(folder), "GRAMWATT_HOME": str(folder)}
    log = folder / "log"
    with (
        log.open("w") as stream,
        subprocess.Popen(line, cwd=folder, env=surroundings, stderr=stream) as server,
    ):
        try:
            address = _found(server, log, r"gramwatt serves (\S+)")
            key = (folder / "server.key").read_text().strip()
            DIRECT.addheaders = [("Authorization", f"Bearer {key}")]
            fill(address)
            yield address, _found(server, log, r"open (\S+/login\S+)")
        finally:
            server.terminate()


@pytest.fixture(scope="module")
def site(served: tuple[str, str]) -> str:
    """The server's address."""
    return served[0]


def _found(server: subprocess.Popen[bytes], log: Path, pattern: str) -> str:
    for _ in range(600):
        found = re.search(pattern, log.read_text())
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


@pytest.fixture(scope="module")
def signed_in(browser: Browser, served: tuple[str, str]) -> Any:
    """What a browser keeps that followed the link of `gramwatt serve`."""
    site, link = served
    context = browser.new_context()
    page = context.new_page()
    page.goto(link)
    page.wait_for_url(f"{site}/")
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture
def watch(site: str) -> Watch:
    """What the pages of a test asked for and complained about."""
    return Watch(site)


@pytest.fixture
def page(browser: Browser, site: str, watch: Watch, signed_in: Any) -> Iterator[Page]:
    """A page at desktop width; whatever it did must have been quiet and local."""
    context = browser.new_context(
        base_url=site, viewport={"width": 1200, "height": 800}, storage_state=signed_in
    )
    made = context.new_page()
    watch.over(made)
    yield made
    context.close()
    assert watch.faults == []
    assert watch.asked != []
