"""Runs scripts as users write them, each in a process and a home of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

import pytest

EPILOGUE = """
import json, sys
def show(job):
    print("\\nDOCUMENT " + json.dumps(job.result))
"""
Run = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def run(tmp_path, root):
    """Run a script; returns the documents of the jobs that it gave to `show`."""

    def call(script: str, *command: str, **settings: str) -> list[dict[str, Any]]:
        path = tmp_path / "script.py"
        path.write_text(EPILOGUE + script, "utf-8")
        # Zeus brings it along, and Ray cannot be imported beside it without AMD's driver.
        (tmp_path / "amdsmi.py").write_text("raise ImportError")
        environ = {**os.environ, "GRAMWATT_HOME": str(tmp_path / "gramwatt"), "GRAMWATT_ZONE": "FR"}
        environ |= {
            "PYTHONPATH": f"{root / 'src'}{os.pathsep}{tmp_path}",
            "KERAS_BACKEND": "jax",
            "HF_HUB_OFFLINE": "1",
        }
        environ |= {"WANDB_MODE": "offline", "YOLO_CONFIG_DIR": str(tmp_path), **settings}
        line = [*(command or (sys.executable, "-W", "ignore")), str(path)]
        done = subprocess.run(
            line, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        marked = [text for text in done.stdout.splitlines() if text.startswith("DOCUMENT ")]
        return [json.loads(text.removeprefix("DOCUMENT ")) for text in marked]

    return call


def counts(document: Mapping[str, Any]) -> dict[str, float]:
    """R of a document by unit."""
    return {item["unit"]: item["count"] for item in document["sci"]}


def windows(document: Mapping[str, Any]) -> list[tuple[str, dict[str, float]]]:
    """The windows of a document, with what was counted in them."""
    return [(item["name"], item["counts"]) for item in document["windows"]]
