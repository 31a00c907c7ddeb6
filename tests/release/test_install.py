"""The built wheel in an empty environment of each Python that is here, as README installs it.

By `scripts/check --release`: it asks the package index. Pythons are those on the PATH.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path

import pytest

from tests.packages import ROOT

PYTHONS = [
    found
    for minor in (11, 12, 13)
    if (found := shutil.which(f"python3.{minor}"))
    and not subprocess.run([found, "-c", ""], capture_output=True).returncode
]
BARE_MIB, SERVICE_MIB = 75, 330
TRACKED = """
from gramwatt import track
with track(unit="image", zone="FR") as job:
    job.count(64)
print(job.result["sci"][0]["count"], job.result["energy_kwh"]["unit"])
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("dist")
    line = [sys.executable, "-m", "hatchling", "build", "-d", str(out), "-t", "wheel"]
    subprocess.run(line, cwd=ROOT, check=True)
    (built,) = out.glob("*.whl")
    return built


class Environment:
    """A fresh virtual environment, with a home of its own."""

    def __init__(self, python: str, folder: Path) -> None:
        self.folder, self.cwd = folder / "venv", folder
        subprocess.run([python, "-m", "venv", str(self.folder)], check=True)
        names = {key: text for key, text in os.environ.items() if not key.startswith("PYTHON")}
        self.environ = {**names, "HOME": str(folder), "GRAMWATT_HOME": str(folder / "home")}
        self.empty_b = self.size_b()

    def size_b(self) -> int:
        return sum(path.lstat().st_blocks * 512 for path in self.folder.rglob("*"))

    def __call__(self, program: str, *arguments: str, fails: bool = False) -> str:
        line = [str(self.folder / "bin" / program), *arguments]
        done = subprocess.run(
            line, cwd=self.cwd, env=self.environ, capture_output=True, text=True, timeout=900
        )
        assert (done.returncode != 0) == fails, f"{line}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def install(self, wanted: str) -> float:
        """Install, and return the size that it takes beside an empty environment [MiB]."""
        self("pip", "install", "--quiet", wanted)
        return (self.size_b() - self.empty_b) / 2**20


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("python", PYTHONS)
def test_the_bare_package_measures(python, wheel, tmp_path):
    environment = Environment(python, tmp_path)
    assert environment.install(str(wheel)) < BARE_MIB
    said = environment("gramwatt", "run", "--zone", "FR", "--", "python", "-c", "pass")
    assert re.search(r"gramwatt: .*Wh, .*CO2e \(.* to .*\); estimated", said)
    (tmp_path / "train.py").write_text(TRACKED)
    assert environment("python", "train.py").startswith("64.0 kWh")
    assert "[service]" in environment("gramwatt", "jobs", fails=True)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("python", PYTHONS)
def test_the_service_shows_what_was_measured(python, wheel, tmp_path):
    environment = Environment(python, tmp_path)
    assert environment.install(f"{wheel}[service]") < SERVICE_MIB
    packages = environment("pip", "list", "--format", "freeze").lower()
    assert not re.search(r"^(codecarbon|pandas|scikit-learn)==", packages, re.M)
    said = environment("gramwatt", "demo", "--zone", "DE", "--seconds", "2")
    assert "Zone DE" in said
    assert {path.suffix for path in (tmp_path / "gramwatt-demo").iterdir()} >= {".html", ".pdf"}
    environment("gramwatt", "run", "--zone", "FR", "--", "python", "-c", "pass")
    environment("gramwatt", "report", "job", "last", "--format", "html,pdf")
    assert environment("gramwatt", "jobs").count("completed") == 3
    assert "3 jobs" in first_page(environment)


def first_page(environment: Environment) -> str:
    """Return the page that a browser gets which follows the link that `gramwatt serve` prints."""
    line = [str(environment.folder / "bin" / "gramwatt"), "serve", "--port", "0"]
    with subprocess.Popen(
        line,
        cwd=environment.cwd,
        env=environment.environ,
        stderr=subprocess.STDOUT,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stdout
            text = ""
            limit = time.monotonic() + 60
            while (
                not (link := re.search(r"http://\S+/login\S+", text)) and time.monotonic() < limit
            ):
                text += server.stdout.readline()
            assert link, text
            browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
            browser.open(link[0], timeout=60).close()
            first = browser.open(link[0].partition("/login")[0], timeout=60)
            return str(first.read().decode())
        finally:
            server.terminate()
