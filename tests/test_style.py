"""Habits that ruff does not check: length of files, and nothing of one machine in the project."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packages import PACKAGES, ROOT, sources

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


def test_a_file_is_as_long_as_its_subject_and_no_longer():
    lengths = {str(path): len(path.read_text("utf-8").splitlines()) for path in sources()}
    assert {path: length for path, length in lengths.items() if length > FILE_LINES_MAX} == {}


def test_no_file_holds_a_path_of_somebodys_machine():
    found = [f"{name}: {match}" for name, text in texts() for match in MACHINE_PATH.findall(text)]
    assert found == []


def test_no_file_names_a_package_registry():
    here = Path(__file__).relative_to(ROOT).as_posix()
    allowed = {here, "scripts/lock"}  # the pattern itself; the option that leaves indexes out
    found = [f"{name}: {hit}" for name, text in texts() for hit in INDEX.findall(text)]
    assert [line for line in found if line.split(":")[0] not in allowed] == []


def test_text_files_end_with_one_newline_and_hold_no_trailing_space():
    wrong = [
        name
        for name, text in texts()
        if name.endswith((".py", ".md", ".toml", ".csv", ".css"))
        if not text.endswith("\n") and text or re.search(r"[ \t]+$", text, re.MULTILINE)
    ]
    assert wrong == []


def test_every_licence_has_its_text_and_each_text_is_of_a_licence():
    """What `reuse lint` asks of the annotations, whose first covers every file."""
    annotations = tomllib.loads((ROOT / "REUSE.toml").read_text("utf-8"))["annotations"]
    assert annotations[0]["path"] == "**"
    stated = {
        name
        for annotation in annotations
        for name in annotation["SPDX-License-Identifier"].split(" AND ")
    }
    assert stated == {path.stem for path in (ROOT / "LICENSES").iterdir()}
    patterns = [path for item in annotations for path in _listed(item["path"])]
    assert [pattern for pattern in patterns if not any(ROOT.glob(pattern))] == []


def _listed(path: str | list[str]) -> list[str]:
    return [path] if isinstance(path, str) else path


NOT_OUR_WORDS = {
    r"(?<!there )\b(?:is|are) no (?!longer|more\b|less\b)[a-z]+": "is not a ...",
    r"\bwhat was had\b": "name the thing again",
    r"\bcarbon neutral\b": "gramwatt knows no offsets",
    r"\b(?:very|quite|simply|obviously|of course)\b": "leave it out",
    r"\b(?:utili[sz]e|leverage|seamless(?:ly)?|blazing(?:ly)?)\b": "use, fast: say the figure",
}
"""What texts for people do not say, and what they say instead."""
NOT_OUR_NAMES = frozenset(
    {"found", "one", "known", "wanted", "told", "said", "asked", "given", "made", "whose"}
    | {"mine", "kept"}
)
NAMED_SO = {"collectors": 1, "reports": 0, "sci": 45, "service": 35}
"""How many names of each package are still of these words: lower a number when you rename some."""


def shown(path: Path) -> str:
    """The texts of a module that may reach a person: its strings, but docstrings."""
    tree = ast.parse(path.read_text("utf-8"))
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return "\n".join(
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner
    )


def test_texts_for_people_use_the_words_of_the_house():
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    wrong = []
    for path in [*pages, *map(ROOT.joinpath, sources(*PACKAGES))]:
        text = path.read_text("utf-8")
        for pattern, instead in NOT_OUR_WORDS.items():
            if re.search(pattern, text, re.IGNORECASE):  # seldom: strings are looked for then alone
                seen = shown(path) if path.suffix == ".py" else text
                matches = re.finditer(pattern, seen, re.IGNORECASE)
                wrong += [f"{path.relative_to(ROOT)}: {m.group()!r}: {instead}" for m in matches]
    assert wrong == []


def bound(tree: ast.AST) -> Iterator[str]:
    """Every name that a module binds: of a variable, an argument, a function, a class."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name


@pytest.mark.parametrize("package", NAMED_SO)
def test_a_result_is_named_by_what_it_is(package):
    trees = (ast.parse(ROOT.joinpath(path).read_text("utf-8")) for path in sources(package))
    assert sum(name in NOT_OUR_NAMES for tree in trees for name in bound(tree)) <= NAMED_SO[package]
