"""Habits no linter of ours checks: sizes, docstrings, and nothing of one machine in the project."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

from tests.packages import ROOT, sources, tree

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 50
Function = ast.FunctionDef | ast.AsyncFunctionDef
VENDORED = ("service/pages/static/", "tests/browser/axe/")
MACHINE_PATH = re.compile(r"(?<![\w.~/-])/(?:work|root|Users)/[\w.-]+")
INDEX = re.compile(r"--(?:extra-)?index-url|--find-links|://\S*/simple\b", re.IGNORECASE)
"""An absolute path into somebody's own folders, and what names a package registry."""


def body_lines(function: Function) -> int:
    """Lines of the body; neither the signature nor the docstring counts."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    if not body:
        return 0
    return (function.end_lineno or 0) - body[0].lineno + 1


def functions(path: Path) -> list[Function]:
    return [node for node in ast.walk(tree(path)) if isinstance(node, Function)]


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


def test_files_are_small() -> None:
    lengths = {str(path): len(path.read_text("utf-8").splitlines()) for path in sources()}
    assert {path: length for path, length in lengths.items() if length > FILE_LINES_MAX} == {}


def test_functions_are_small() -> None:
    lengths = {f"{path}:{f.name}": body_lines(f) for path in sources() for f in functions(path)}
    assert {name: lines for name, lines in lengths.items() if lines > FUNCTION_LINES_MAX} == {}


def test_every_module_says_what_it_is() -> None:
    assert [path for path in own_sources() if not ast.get_docstring(tree(path))] == []


def test_everything_public_says_what_it_is() -> None:
    silent = [
        f"{path}: {node.name}"
        for path in own_sources()
        for scope in (tree(path), *public_classes(path))
        for node in scope.body
        if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_")
        if not ast.get_docstring(node) and not is_overload(node)
    ]
    assert silent == []


def own_sources() -> list[Path]:
    """Every source file but migrations, which alembic runs and names."""
    return [path for path in sources() if "versions" not in path.parts]


def public_classes(path: Path) -> list[ast.ClassDef]:
    return [
        node
        for node in tree(path).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]


def is_overload(node: Function | ast.ClassDef) -> bool:
    return any(isinstance(d, ast.Name) and d.id == "overload" for d in node.decorator_list)


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
