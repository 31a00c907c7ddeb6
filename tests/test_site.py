"""The documentation site: built strictly, whole, and without anything fetched."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.packages import ROOT

pytestmark = pytest.mark.long

FETCHED = re.compile(r"<(?:script|img|link)\b[^>]*\b(?:src|href)=\"(?:https?:)?//")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site; the build fails at a broken link, or a page that none leads to."""
    out = tmp_path_factory.mktemp("site")
    line = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "dirhtml"]
    done = subprocess.run([*line, "docs", str(out)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


def test_every_page_is_there_and_nothing_is_fetched(site):
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index"}
    assert {name for name in pages if not (site / name / "index.html").exists()} == set()
    texts = {path: path.read_text("utf-8") for path in site.rglob("*.html")}
    assert [str(path) for path, text in texts.items() if FETCHED.search(text)] == []
    styles = "".join(path.read_text("utf-8") for path in site.rglob("*.css"))
    assert re.findall(r"(?:@import|url\()\s*[\"']?(?:https?:)?//[^)\"']*", styles) == []


def test_the_reference_is_made_of_the_code(site):
    def shown(name: str) -> str:
        text = (site / "_generated" / name / "index.html").read_text("utf-8")
        return re.sub(r"<[^>]*>", "", text)

    assert "gramwatt report month" in shown("commands")
    assert "--when-greenest" in shown("commands")
    assert "POST /v1/jobs/{job_id}/records" in shown("routes")
    assert "number from 0.1 to 50000 W" in shown("data")
    assert "gramwatt.track(" in shown("python")


def test_programs_that_read_find_every_page_as_text(site):
    listed = re.findall(r"\]\((\S+\.md)\)", (site / "llms.txt").read_text("utf-8"))
    assert sorted(listed) == sorted(path.name for path in (ROOT / "docs").glob("*.md"))
    assert (site / "methodology.md").read_text("utf-8").startswith("# ")
