"""The documents name every code, command, option, variable, setting, route and field."""

from __future__ import annotations

import ast
import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from gramwatt.sci.figures import document
from gramwatt.sci.figures.notices import CODES, HELP
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.month import documents
from tests.packages import PACKAGES, ROOT, sources

DOCS = sorted((ROOT / "docs").glob("*.md"))
REFERENCE = sorted((ROOT / "docs" / "reference").glob("*.md"))
README = ROOT / "README.md"
BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DIRECTIVE = re.compile(r"\{\w+\}")
READERS: dict[str, Callable[[str], Any]] = {"toml": tomllib.loads, "yaml": yaml.safe_load}
RUN = {
    "sh": "tests/test_docs_commands.py runs its lines",
    "python": "a script of its own, below",
    "python fragment": "a part of a script that needs a framework: its names are checked below",
    "ipython": "tests/collectors/integrations/test_notebook.py runs its cells",
    "python lake": "tests/clusters/test_lake.py runs it with Spark",
    "python client": "tests/service/test_client.py runs it against a server",
}
OUTPUT = {"text": "what a command prints, or the form of a line"}
"""What a block of the documents may be; each but `text` is run or read by a test."""
VARIABLE = re.compile(r"\bGRAMWATT_[A-Z][A-Z0-9_]*[A-Z]\b")
DEFINITION = re.compile(r"^\| (?:`\w+` \| )?(`GRAMWATT_[^|]*)\|", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")
FLAG = re.compile(r"--[a-z][a-z-]+")


def text_of(*paths: Path) -> str:
    return "\n".join(path.read_text("utf-8") for path in paths)


def blocks(language: str, *paths: Path) -> list[str]:
    return [body for name, body in BLOCK.findall(text_of(*paths)) if name == language]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a terminal of 80 columns."""
    line = [sys.executable, "-m", "gramwatt", *words]
    environ = {**os.environ, "COLUMNS": "80", "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(line, env=environ, capture_output=True, text=True)


@pytest.fixture(scope="module")
def cli():
    """The whole command, as a person with every extra has it."""
    from gramwatt.collectors.cli.app import build_app

    return typer.main.get_command(build_app(lambda: None))


def commands(group: Any, prefix: str = "gramwatt") -> Iterator[tuple[str, Any]]:
    for name, found in group.commands.items():
        yield f"{prefix} {name}", found
        if hasattr(found, "commands"):
            yield from commands(found, f"{prefix} {name}")


def test_the_reference_is_as_the_code_has_it():
    """A difference is mended by `python scripts/reference.py`."""
    pages = runpy.run_path(str(ROOT / "scripts" / "reference.py"))["PAGES"]
    assert set(HELP) <= set(CODES)
    written = {page.stem: page.read_text("utf-8") for page in REFERENCE}
    del written["suggestions-accuracy"]  # by python -m benchmarks.suggestions --write
    del written["fields"]  # by hand
    assert written == {name: page() for name, page in pages.items()}


def test_every_field_of_the_documents_is_explained():
    known = {**vars(document), **vars(documents)}
    shapes = [shape for name, shape in known.items() if name.endswith(("Doc", "Head"))]
    shapes = [shape for shape in shapes if shape is not Quantity]  # a TypedDict
    shapes += [documents.MonthTotals, documents.ProjectRow, document.SeriesPoint]
    fields = {name for shape in shapes for name in shape.__struct_encode_fields__}
    assert len(fields) > 70
    glossary = text_of(ROOT / "docs" / "glossary.md")
    page = text_of(ROOT / "docs" / "reference" / "fields.md")
    explained = set(
        re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)))
    )
    explained |= set(re.findall(r"`(\w+)`", glossary))
    explained |= set(re.findall(r"^\| (\w+) \|", glossary, re.MULTILINE))  # words
    assert sorted(fields - explained) == []


def test_every_symbol_of_the_standard_is_in_the_glossary():
    rows = re.findall(r"^\| (\w+) \|", text_of(ROOT / "docs" / "glossary.md"), re.MULTILINE)
    assert {"E", "I", "M", "R", "O", "TE", "TiR", "EL", "RR", "ToR", "PUE", "SCI"} <= set(rows)


def test_every_command_is_named(cli):
    words = text_of(README, *DOCS)
    assert [name for name, _ in commands(cli) if name not in words] == []


def test_every_variable_that_is_known_is_defined_in_one_row_of_the_documents():
    from gramwatt.collectors.settings.config import OTHER_VARIABLES, PARSERS
    from gramwatt.service.config import SETTINGS
    from gramwatt.service.logs import GUNICORN

    keys = {setting.key for setting in SETTINGS} | {key.upper() for key in PARSERS}
    known = [f"GRAMWATT_{key}" for key in keys | OTHER_VARIABLES | GUNICORN]
    used = {name for path in sources() for name in VARIABLE.findall(path.read_text("utf-8"))}
    assert used - set(known) == set()
    both = {"GRAMWATT_HOME", "GRAMWATT_LIFETIME_YEARS", "GRAMWATT_OVERLAY"}  # of jobs and server
    cells = [cell for cell in DEFINITION.findall(text_of(*DOCS)) if cell.strip("` ") not in both]
    cells += DEFINITION.findall(text_of(ROOT / "docs" / "reference" / "settings.md"))
    assert sorted(VARIABLE.findall(" ".join(cells))) == sorted(known)


def test_every_route_is_named(tmp_path):
    from gramwatt.service.app import create_app
    from gramwatt.service.config import ServiceConfig, sqlite_url
    from gramwatt.service.container import Service

    url = sqlite_url(tmp_path / "gramwatt.db")
    app = create_app(Service.open(ServiceConfig(home=tmp_path, database_url=url)))
    words = re.sub(r"\{\w[^}]*\}|<[^>]*>", "{}", text_of(README, *DOCS))
    rules = {re.sub(r"<[^>]*>", "{}", rule.rule) for rule in app.url_map.iter_rules()}
    # Of a route with an extension its other form is named; files of the pages are no interface.
    named = {rule.removesuffix(".{}") for rule in rules if not rule.startswith("/static/")}
    assert len(named) > 10
    assert [rule for rule in sorted(named) if rule not in words] == []


def test_documented_commands_and_options_exist(cli):
    known = dict(commands(cli))
    wrong = []
    for line in shell_lines():
        words = shlex.split(line, comments=True)
        if words[:1] != ["gramwatt"]:
            continue
        own = words[: words.index("--")] if "--" in words else words
        name = next((" ".join(own[:n]) for n in (4, 3, 2) if " ".join(own[:n]) in known), None)
        if name is None:
            wrong.append(line)
            continue
        options = {option for param in known[name].params for option in param.opts}
        wrong += [f"{line}: {flag}" for flag in FLAG.findall(" ".join(own)) if flag not in options]
    assert wrong == []


def test_each_option_that_the_page_of_commands_names_is_there(cli):
    options = {opt for _, leaf in commands(cli) for param in leaf.params for opt in param.opts}
    text = (ROOT / "docs" / "command.md").read_text("utf-8")
    named = re.findall(r"`(--[a-z][a-z-]+)", text)
    assert len(named) > 30
    assert [option for option in named if option not in options] == []


def shell_lines() -> list[str]:
    bodies = blocks("sh", README, *DOCS) + blocks("bash", README, *DOCS)
    return [line.strip() for body in bodies for line in body.splitlines() if line.strip()]


def test_every_block_is_run_or_read_by_a_test_or_is_output():
    pages = {page.name: BLOCK.findall(page.read_text("utf-8")) for page in (README, *DOCS)}
    known = {*RUN, *READERS, *OUTPUT}
    unlabelled = [
        f"{page}: {language or 'no language'}: {body[:40]}"
        for page, bodies in pages.items()
        for language, body in bodies
        if language not in known and not DIRECTIVE.fullmatch(language)
    ]
    assert unlabelled == []


@pytest.mark.parametrize("language", READERS)
def test_every_block_of_data_can_be_read(language):
    found = blocks(language, README, *DOCS)
    assert found, f"{language}: no block is read here; take the language out of READERS"
    assert all(map(READERS[language], found))


@pytest.mark.parametrize("number", range(len(blocks("python fragment", *DOCS))))
def test_a_fragment_takes_from_gramwatt_what_is_there(number):
    """It cannot run without its framework: names, modules and methods of the job must exist."""
    from gramwatt.collectors.track.track import Job

    code = ast.parse(blocks("python fragment", *DOCS)[number])
    for node in ast.walk(code):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gramwatt."):
            module = ROOT / "src" / Path(*str(node.module).split("."))
            text = (
                module / "__init__.py" if module.is_dir() else module.with_suffix(".py")
            ).read_text("utf-8")
            defined = {getattr(item, "name", None) for item in ast.parse(text).body}
            assert {alias.name for alias in node.names} <= defined
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", None) == "job":
            assert hasattr(Job, node.attr), node.attr


def test_the_readmes_first_commands_are_the_scripts():
    first = blocks("sh", README)[0]
    assert "scripts/demo" in first
    assert "scripts/check" in first
    for name in ("demo", "check"):
        assert os.access(ROOT / "scripts" / name, os.X_OK)


@pytest.mark.parametrize("number", range(len(blocks("python", README, *DOCS))))
def test_the_python_of_readme_and_documents_runs(number, tmp_path):
    """Each block as a script of its own, with measuring switched off: it must not need it."""
    (tmp_path / "example.py").write_text(blocks("python", README, *DOCS)[number], "utf-8")
    environ = {**os.environ, "GRAMWATT_OFF": "1"}
    line = [sys.executable, "example.py"]
    done = subprocess.run(line, cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_every_link_and_every_named_document_exists():
    missing = [
        f"{page.name}: {target}"
        for page in (README, ROOT / "CONTRIBUTING.md", *DOCS, *REFERENCE)
        for target in LINK.findall(page.read_text("utf-8"))
        if not (page.parent / target).exists()
    ]
    files = {path.as_posix() for path in sources(*PACKAGES)} | {
        path.as_posix()
        for name in ("tests", "scripts", "benchmarks")
        for path in (ROOT / name).rglob("*.py")
    }
    for page in DOCS:
        named = set(re.findall(r"`((?:\w+/)+\w+\.py)`", page.read_text("utf-8")))
        missing += [
            f"{page.name}: {name}"
            for name in named
            if not any(file.endswith(f"/{name}") for file in files)
        ]
    for path in sources(*PACKAGES):
        named = set(re.findall(r"docs/[\w/-]+\.md", path.read_text("utf-8")))
        missing += [f"{path.name}: {name}" for name in named if not (ROOT / name).exists()]
    assert missing == []


def test_the_help_has_every_command_in_thirty_lines_of_eighty_columns():
    from gramwatt.collectors.cli.app import COMMANDS, FIRST

    lines = run("--help").stdout.splitlines()
    assert (len(lines) <= 30, max(map(len, lines)) <= 80) == (True, True)
    names = [line.split()[0] for line in lines if line.startswith("  ")]
    assert [name for name in names if "-" not in name] == list(COMMANDS)
    assert names.index("-" * len(names[len(FIRST)])) == len(FIRST)  # a line below the first ones


def test_a_mistyped_command_is_answered_with_the_nearest():
    done = run("jbos")
    assert (done.returncode, done.stdout) == (2, "")
    assert "'jbos' is not a command. Did you mean jobs?" in done.stderr


def test_no_help_has_a_bracket_that_the_terminal_takes_for_markup(cli):
    """rich drops `[h]` and `[default: now]`, so that units and defaults were not to be seen."""
    markup = re.compile(r"\[[a-z#/@][^[]*?\]")
    texts = [
        (name, text)
        for name, found in commands(cli)
        for text in (found.help, *(getattr(param, "help", "") for param in found.params))
    ]
    assert len(texts) > 100
    assert [(name, text) for name, text in texts if markup.search(text or "")] == []


@pytest.mark.parametrize("name", ["suggest", "run"])  # the longest options
def test_no_option_is_cut_in_a_help_of_eighty_columns(name):
    assert "\u2026" not in run(name, "--help").stdout


def test_every_test_that_a_document_names_is_there():
    named = set(re.findall(r"(tests/[\w/]+\.py)::(\w+)", text_of(README, *DOCS)))
    assert len(named) >= 40
    missing = [
        f"{name}::{test}"
        for name, test in sorted(named)
        if not (ROOT / name).is_file() or f"def {test}(" not in text_of(ROOT / name)
    ]
    assert missing == []


def test_each_row_of_the_threat_model_names_its_test():
    text = text_of(ROOT / "docs" / "security.md").partition("\n## What\n")[2].partition("\n## ")[0]
    rows = [row for row in text.splitlines() if row.startswith("| ")][1:]
    assert len(rows) > 20
    assert [row for row in rows if "tests/" not in row.split("|")[4]] == []
