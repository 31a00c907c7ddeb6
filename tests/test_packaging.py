"""The wheel: every data file is in it, nothing but `gramwatt` is, and the engine runs alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import msgspec
import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packages import PACKAGES, ROOT

LEFT_OUT = shutil.ignore_patterns(
    ".*", "build", "dist", "*.egg-info", "__pycache__", "gramwatt-demo", "tests", "benchmarks"
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The built wheel; offline and without isolation, from a copy of the checkout."""
    copy = tmp_path_factory.mktemp("source") / "gramwatt"
    shutil.copytree(ROOT, copy, symlinks=True, ignore=LEFT_OUT)
    out = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-index", "--no-deps", "--no-build-isolation", "-w", str(out), str(copy))
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def site(wheel, tmp_path_factory):
    """A folder the wheel is installed into, without any dependency."""
    target = tmp_path_factory.mktemp("site")
    pip("install", "--no-index", "--no-deps", "--target", str(target), str(wheel))
    return target


def pip(*arguments: str) -> None:
    line = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", *arguments]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def python(site: Path, cwd: Path, text: str, *flags: str) -> str:
    """What a fresh interpreter prints that finds the wheel before anything else."""
    text = f"import sys; sys.path.insert(0, {str(site)!r})\n{text}"
    line = [sys.executable, *flags, "-c", text]
    done = subprocess.run(line, capture_output=True, text=True, cwd=cwd, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_holds_every_file_of_the_four_packages(wheel):
    packed = set(zipfile.ZipFile(wheel).namelist())
    expected = {
        f"gramwatt/{path.relative_to(ROOT).as_posix()}"
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert len(expected) > 100
    assert expected - packed == set()
    assert "gramwatt/py.typed" in packed


def test_the_wheel_brings_no_name_but_its_own(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"gramwatt", "gramwatt-0.1.0.dist-info"}
    inside = {name.split("/")[1] for name in names if name.startswith("gramwatt/")}
    assert inside == {*PACKAGES, "client", "integrations", "__init__.py", "__main__.py", "py.typed"}
    assert any(name.endswith("licenses/LICENSE") for name in names)


def build(source: Path, out: Path, umask: int, *targets: str) -> dict[str, bytes]:
    """What hatchling makes of a folder, by file name."""
    line = [sys.executable, "-m", "hatchling", "build", "-d", str(out), *targets]
    done = subprocess.run(line, cwd=source, capture_output=True, text=True, umask=umask)
    assert done.returncode == 0, done.stderr
    return {path.name: path.read_bytes() for path in out.iterdir()}


@pytest.mark.long
def test_two_builds_are_the_same_bytes_and_the_sdist_builds_the_wheel(tmp_path):
    copies = [tmp_path / name / "gramwatt" for name in ("one", "other")]
    for copy in copies:
        shutil.copytree(ROOT, copy, symlinks=True, ignore=LEFT_OUT, copy_function=shutil.copyfile)
    one = build(copies[0], tmp_path / "a", 0o022)
    assert build(copies[1], tmp_path / "b", 0o077) == one
    (archive,) = (tmp_path / "a").glob("*.tar.gz")
    subprocess.run(["tar", "-xzf", str(archive), "-C", str(tmp_path)], check=True)
    again = build(tmp_path / archive.name.removesuffix(".tar.gz"), tmp_path / "c", 0o077, "-twheel")
    assert again.items() <= one.items()
    assert len(again) == 1


def test_the_wheel_names_what_others_made_in_it(wheel):
    files = zipfile.ZipFile(wheel)
    (name,) = [name for name in files.namelist() if "/sboms/" in name]
    text = files.read(name).decode()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    metadata = project()["project"]
    assert isinstance(metadata, dict)
    licences = set(metadata["license"].split(" AND "))
    components = json.loads(text)["components"]
    for component in components:
        (where,) = component["properties"]
        assert any(path.startswith(f"{where['value']}/") for path in files.namelist()), where
        for given in component["licenses"]:
            named = given.get("expression") or given["license"]["id"]
            assert set(named.split(" AND ")) <= licences
    named = {component["properties"][0]["value"] for component in components}
    packed = [
        path for path in files.namelist() if path.startswith("gramwatt/service/pages/static/")
    ]
    static = {path.rpartition("/")[0] for path in packed}
    assert {path for path in static if not path.endswith("/static")} <= named


def test_track_needs_no_dependency_and_the_engine_msgspec_alone(site, tmp_path):
    needed = tmp_path / "needed"
    needed.mkdir()
    (needed / "msgspec").symlink_to(Path(msgspec.__file__).parent)
    text = f"""
import gramwatt
from gramwatt import track
sys.path.append({str(needed)!r})
import gramwatt.sci.score.score, gramwatt.sci.month.month
from gramwatt.sci.catalog.catalog import load_catalog
print(gramwatt.__file__, load_catalog().zone("DE").zone, callable(track))
"""
    said = python(site, tmp_path, text, "-S").split()
    assert said == [str(site / "gramwatt" / "__init__.py"), "DE", "True"]


def test_the_service_finds_its_data_in_the_wheel(site, tmp_path):
    text = """
import gramwatt.service.store.migrate, gramwatt.service.app, gramwatt.reports
from gramwatt.service.jobs.local_spool import open_store
from pathlib import Path
service = open_store(Path.cwd())
service.store.close()
print(gramwatt.service.app.__file__, (Path.cwd() / "gramwatt.db").stat().st_size > 4096)
"""
    said = python(site, tmp_path, text).split()
    assert said == [str(site / "gramwatt" / "service" / "app.py"), "True"]


def test_the_command_is_installed(site, tmp_path):
    environ = {**os.environ, "PYTHONPATH": str(site)}
    line = [str(site / "bin" / "gramwatt"), "catalog", "regions", "aws:eu-west-1", "--json"]
    done = subprocess.run(line, capture_output=True, text=True, env=environ, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["matches"]


def project() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def locked(name: str) -> dict[str, list[str]]:
    """Versions by package of a lock file; several where Python versions differ."""
    found: dict[str, list[str]] = {}
    for line in (ROOT / "requirements" / f"{name}.txt").read_text("utf-8").splitlines():
        if "==" in line:
            package, _, rest = line.partition("==")
            found.setdefault(canonicalize_name(package), []).append(rest.split()[0])
    return found


def wanted(*extras: str) -> list[Requirement]:
    metadata = project()["project"]
    assert isinstance(metadata, dict)
    texts = list(metadata["dependencies"])
    for extra in extras:
        texts += metadata["optional-dependencies"][extra]
    return [one for one in map(Requirement, texts) if one.name != "gramwatt"]


@pytest.mark.parametrize(
    ("lock", "extras"),
    [
        ("demo", ("host", "service")),
        ("team", ("service", "postgres", "team")),
        ("development", ("host", "service", "postgres")),
    ],
)
def test_the_lock_files_satisfy_the_metadata(lock, extras):
    versions = locked(lock)
    for requirement in wanted(*extras):
        found = versions.get(canonicalize_name(requirement.name), [])
        assert found, f"{requirement.name} is not in requirements/{lock}.txt; run scripts/lock"
        assert all(version in requirement.specifier for version in found), requirement


@pytest.mark.parametrize("lock", ["demo", "team"])
def test_the_development_lock_holds_the_others_versions(lock):
    development = locked("development")
    assert {
        name: versions
        for name, versions in locked(lock).items()
        if development.get(name) != versions
    } == {}


def test_every_locked_file_has_a_hash():
    for name, least in (("demo", 50), ("team", 40), ("development", 50)):
        text = (ROOT / "requirements" / f"{name}.txt").read_text("utf-8")
        blocks = [block for block in text.replace("\\\n", "").splitlines() if "==" in block]
        assert len(blocks) > least
        assert all("--hash=sha256:" in block for block in blocks)
