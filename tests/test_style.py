"""Habits that ruff does not check: length of files, and nothing of one machine in the project."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.packages import ROOT, sources

FILE_LINES_MAX = 1_000
VENDORED = ("service/pages/static/", "tests/browser/axe/")
MACHINE_PATH = re.compile(r"(?<![\w.~/-])/(?:work|root|Users)/[\w.-]+")
INDEX = re.compile(r"--(?:extra-)?index-url|--find-links|://\S*/simple\b", re.IGNORECASE)
"""An absolute path into somebody's own folders, and what names a package registry."""


def tracked() -> list[Path]:
    line = ["git", "-c", "safe.directory=*", "ls-files", "-z"]
    listed = subprocess.run(line, cwd=ROOT, capture_output=True, check=True, timeout=30).stdout
    paths = [ROOT / name for name in listed.decode().split("\0") if name]
    assert len(paths) > 100
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def texts() -> list[tuple[str, str]]:
    """Name and content of every tracked text file that is ours."""
    found = []
    for path in tracked():
        name = path.relative_to(ROOT).as_posix()
        content = path.read_bytes()
        if b"\0" not in content and not name.startswith(VENDORED):
            found.append((name, content.decode("utf-8")))
    return found


def test_a_file_is_as_long_as_its_subject_and_no_longer() -> None:
    lengths = {str(path): len(path.read_text("utf-8").splitlines()) for path in sources()}
    assert {path: length for path, length in lengths.items() if length > FILE_LINES_MAX} == {}


def test_no_file_holds_a_path_of_somebodys_machine() -> None:
    found = [f"{name}: {match}" for name, text in texts() for match in MACHINE_PATH.findall(text)]
    assert found == []


def test_no_file_names_a_package_registry() -> None:
    here = Path(__file__).relative_to(ROOT).as_posix()
    allowed = {here, "scripts/lock"}  # the pattern itself; the option that leaves indexes out
    found = [f"{name}: {hit}" for name, text in texts() for hit in INDEX.findall(text)]
    assert [line for line in found if line.split(":")[0] not in allowed] == []


def test_text_files_end_with_one_newline_and_hold_no_trailing_space() -> None:
    wrong = [
        name
        for name, text in texts()
        if name.endswith((".py", ".md", ".toml", ".csv", ".css"))
        if not text.endswith("\n") and text or re.search(r"[ \t]+$", text, re.MULTILINE)
    ]
    assert wrong == []
