"""The walls of the house: which package imports which, and what the engine may touch."""

from __future__ import annotations

import ast
import json
import pkgutil
import re
import subprocess
import sys
from importlib.metadata import packages_distributions

import pytest

from tests.packages import PACKAGES, ROOT, imports, module_name, sources, tree

ARROWS = {
    "sci": ("gramwatt.sci",),
    "collectors": ("gramwatt.sci", "gramwatt.collectors"),
    "reports": ("gramwatt.sci", "gramwatt.reports"),
    "service": (
        "gramwatt.sci",
        "gramwatt.reports",
        "gramwatt.service",
        "gramwatt.collectors.spool.spool",
        "gramwatt.collectors.spool.recovery",
        "gramwatt.collectors.cli.login",
        "gramwatt.collectors.cli.options",
        "gramwatt.collectors.cli.server",
        "gramwatt.collectors.cli.summary",
        "gramwatt.collectors.client",
        "gramwatt.collectors.settings.config",
        "gramwatt.collectors.settings.catalogs",
        "gramwatt.collectors.settings.files",
        "gramwatt.collectors.settings.http",
        "gramwatt.collectors.settings.identity",
        "gramwatt.collectors.settings.installation",
        "gramwatt.collectors.settings.progress",
        "gramwatt.collectors.settings.keys",
    ),
}
"""What each package may import of ours; the service takes in spools, private as they are, and
reads the same settings."""
EVERYONE = ("gramwatt", "gramwatt.__version__", "gramwatt.track")
OUTSIDE = {
    "sci": {"msgspec", "numpy"},  # numpy: forecasts only: a contract of import-linter says where
    "collectors": {
        "codecarbon",
        "msgspec",
        "pynvml",
        "requests",
        "rich",
        "typer",
        "urllib3",
        "click",
    },
    "reports": {"jinja2", "markupsafe", "msgspec", "typst", "vl_convert", "xlsxwriter", "yaml"},
}
"""Third-party packages each package may import; the service may import any that is declared."""
SINGLE = {"pynvml": "collectors", "codecarbon": "collectors"}
INTEGRATIONS = ROOT / "collectors" / "integrations"
INTEGRATED = {
    *("IPython", "accelerate", "huggingface_hub", "keras", "lightning", "mlflow"),
    *("pytorch_lightning", "transformers"),
}
"""The other sides of the integrations, which are loaded where a user names one."""
IMPURE = {"os", "io", "time", "socket", "logging", "subprocess", "threading", "urllib"}
"""Standard library the engine must not import: input, output, clock, environment."""
SEEDED = "random.Random"
"""The only part of `random` that it may use, with a seed."""
IMPURE_METHODS = {"now", "utcnow", "today", "open", "read_text", "read_bytes", "write_text"}
READER = "gramwatt.sci.figures.csv_data"
"""The engine's one reader of packaged data."""
STRUCTS = "gramwatt.sci.figures.structs"
"""The only module that lets msgspec learn classes, under a lock."""
LEARNS = ("msgspec.convert", "msgspec.json.Decoder", "msgspec.msgpack")


def ours(name: str) -> bool:
    return name.split(".")[0] == "gramwatt"


def against_the_arrow(package, name):
    return (
        ours(name)
        and name not in EVERYONE
        and not name.startswith(ARROWS[package])
        # `from a import b` is listed as the package `a` and as the module `a.b`.
        and not any(allowed.startswith(f"{name}.") for allowed in ARROWS[package])
    )


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_run_one_way_and_never_by_a_bare_package_name(package):
    assert [
        f"{module_name(path)} imports {name}"
        for path in sources(package)
        for name in imports(path)
        if against_the_arrow(package, name) or name.split(".")[0] in PACKAGES
    ] == []


@pytest.mark.parametrize("package", OUTSIDE)
def test_third_party_packages_are_the_named_ones(package):
    allowed = OUTSIDE[package] | sys.stdlib_module_names | {"gramwatt"}
    found = {
        name.split(".")[0]: module_name(path)
        for path in sources(package)
        for name in imports(path)
        if path.parent != INTEGRATIONS
        and path.stem != "trackers"
        or name.split(".")[0] not in INTEGRATED
    }
    assert {name: where for name, where in found.items() if name not in allowed} == {}


def test_every_import_is_installed_by_a_declared_dependency():
    lock = (ROOT / "requirements" / "development.txt").read_text("utf-8").lower()
    declared = {line.partition("==")[0] for line in lock.splitlines() if "==" in line}
    known = packages_distributions()
    for path in sources():
        for name in {name.split(".")[0] for name in imports(path)}:
            if name in sys.stdlib_module_names or name in {"gramwatt", "pyspark", *INTEGRATED}:
                continue
            names = {dist.lower().replace("_", "-") for dist in known.get(name, [])}
            assert names & declared, f"{path}: {name}"


@pytest.mark.parametrize("library", SINGLE)
def test_each_meter_library_has_one_importer(library):
    importers = [
        path for path in sources() if library in {name.split(".")[0] for name in imports(path)}
    ]
    assert len(importers) == 1, importers
    assert importers[0].is_relative_to(ROOT / SINGLE[library])


def test_the_engine_does_no_input_or_output():
    wrong = []
    for path in sources("sci"):
        if module_name(path) == READER:
            continue
        wrong += [
            f"{module_name(path)} imports {name}"
            for name in imports(path)
            if name.split(".")[0] in IMPURE or (name.startswith("random.") and name != SEEDED)
            if (module_name(path), name.split(".")[0]) != (STRUCTS, "threading")  # a lock
        ]
        wrong += [f"{module_name(path)}:{node.lineno}" for node in impure_calls(tree(path))]
    assert wrong == []


def test_classes_are_learnt_in_one_module():
    wrong = [
        f"{module_name(path)}:{node.lineno}"
        for path in sources()
        if module_name(path) != STRUCTS
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call)
        if ast.unparse(node.func).startswith(LEARNS)
        or (ast.unparse(node.func) == "msgspec.json.decode" and len(node.args + node.keywords) > 1)
    ]
    wrong += [
        f"{module_name(path)} imports {name}"
        for path in sources()
        if module_name(path) != STRUCTS
        for name in imports(path)
        if name in {"msgspec.convert", "msgspec.json.decode", "msgspec.json.Decoder"}
    ]
    assert wrong == []


@pytest.mark.parametrize("path", [p for p in sources() if p.name == "__init__.py"], ids=module_name)
def test_a_package_names_only_what_it_holds(path):
    parts = module_name(path).split(".")
    bases = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
    for name in re.findall(r"`(\w+(?:\.\w+)+)`", ast.get_docstring(tree(path)) or ""):
        assert any(is_there(f"{base}.{name}") for base in bases), name


def is_there(name: str) -> bool:
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def impure_calls(module: ast.Module) -> list[ast.Call]:
    """Calls that open a file, print, ask what time it is, or draw without a seed."""
    found = []
    for node in ast.walk(module):
        if not isinstance(node, ast.Call):
            continue
        named = isinstance(node.func, ast.Name) and node.func.id in {"open", "print", "input"}
        method = isinstance(node.func, ast.Attribute) and node.func.attr in IMPURE_METHODS
        name = ast.unparse(node.func)
        drawn = name.startswith("random.") or (name == "Random" and not node.args)
        if named or method or drawn:
            found.append(node)
    return found


@pytest.mark.parametrize(
    "text",
    [
        "open('x')",
        "print(1)",
        "datetime.now(UTC)",
        "date.today()",
        "Path('x').read_text()",
        "random.random()",
        "Random()",
    ],
)
def test_the_engine_test_sees_impure_calls(text):
    assert len(impure_calls(ast.parse(text))) == 1


PROBE = """
import importlib, json, os, sys
sys.dont_write_bytecode = True
inside, modules, root = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
seen, current = [], None
QUIET = ("open", "socket.connect", "subprocess.Popen", "os.posix_spawn", "os.mkdir", "os.remove")

def hook(event, args):
    if current is None or event not in QUIET:
        return
    if event == "open" and not watched(args):
        return
    seen.append(f"{current}: {event} {args[0]!r}")

def watched(args):
    path = args[0]
    if not isinstance(path, (str, bytes)):
        return False
    path = os.fsdecode(path)
    if path.startswith(("/dev", "/sys")):
        return True
    return path.startswith(root) and ".venv" not in path and not path.endswith((".py", ".pyc"))

sys.addaudithook(hook)
for name in modules:
    current = name
    importlib.import_module(name)
current = None
print(json.dumps(seen))
"""
NOT_LIBRARY = ("migrations", "train_spirals")
"""Files that are run, not imported: migrations by alembic, the demo's scripts by people."""


def test_importing_any_module_reads_no_file_and_opens_no_device(tmp_path):
    names = [
        module_name(path)
        for path in sources()
        if path.stem != "__main__" and not any(part in str(path) for part in NOT_LIBRARY)
        if path.parent != INTEGRATIONS or path.stem not in INTEGRATED
    ]
    line = [sys.executable, "-c", PROBE, "", json.dumps(names), str(ROOT)]
    done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []
