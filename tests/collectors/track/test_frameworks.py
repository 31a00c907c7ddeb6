"""The framework a job ran with: found without an import, journaled, overruled by tags."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

from gramwatt.collectors.spool.spool import folders
from gramwatt.collectors.track.frameworks import FRAMEWORKS, loaded_frameworks
from gramwatt.sci.records.merge import merge
from gramwatt.sci.records.records import decode
from gramwatt.sci.suggest import facts


def module(name: str, version: object = "1.0") -> ModuleType:
    made = ModuleType(name)
    made.__dict__["__version__"] = version
    return made


def modules(*names: str) -> dict[str, Any]:
    return {name: module(name) for name in names}


@pytest.mark.parametrize(
    ("names", "framework"),
    [
        (("torch",), "pytorch"),
        (("tensorflow",), "tensorflow"),
        (("jax",), "jax"),
        (("torch", "vllm"), "vllm"),
        (("torch", "tensorrt", "tensorrt_llm"), "tensorrt-llm"),
        (("torch", "jax"), None),
        (("torch", "vllm", "jax"), None),
        (("json", "numpy"), None),
    ],
)
def test_the_framework_is_told_only_where_one_stands_above_the_others(names, framework):
    found = loaded_frameworks(modules(*names))
    assert found.get("framework") == framework
    known = {name: "1.0" for name in names if name in FRAMEWORKS}
    assert found.get("versions", {}) == known


def test_every_framework_is_one_that_the_suggestions_know():
    assert {name for name, _ in FRAMEWORKS.values()} <= set(facts.FRAMEWORKS)


@pytest.mark.parametrize("odd", [None, object(), 5, module("torch", 7), module("torch", "")])
def test_what_is_no_loaded_module_is_none(odd):
    assert loaded_frameworks({"torch": odd}) == {}


def test_nothing_is_imported_not_even_by_a_lazy_module(tmp_path):
    (tmp_path / "torch.py").write_text("raise SystemExit('imported')\n")
    spec = importlib.util.spec_from_file_location("torch", tmp_path / "torch.py")
    assert spec is not None
    assert spec.loader is not None
    spec.loader = importlib.util.LazyLoader(spec.loader)
    lazy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(lazy)
    assert loaded_frameworks({"torch": lazy}) == {}


TRAINING = """
import sys, types
from gramwatt import track
with track():
    torch = types.ModuleType("torch")
    torch.__version__ = "2.9.0+cu130"
    sys.modules["torch"] = torch
"""


def test_a_tracked_process_tells_what_it_had_loaded(tmp_path):
    environ = {key: text for key, text in os.environ.items() if not key.startswith("GRAMWATT_")}
    environ |= {"GRAMWATT_HOME": str(tmp_path), "GRAMWATT_HOST_SOURCE": "model"}
    line = [sys.executable, "-c", TRAINING]
    done = subprocess.run(line, env=environ, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    (folder,) = folders(tmp_path)
    head = merge(decode(text) for text in folder.lines()).head
    assert (head.framework, head.versions["torch"]) == ("pytorch", "2.9.0+cu130")
