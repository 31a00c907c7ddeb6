"""`%load_ext gramwatt` in real kernels, by nbclient."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.packages import ROOT
from tests.test_docs import blocks

Cells = Callable[..., list[Any]]


@pytest.fixture
def cells(tmp_path, monkeypatch):
    """Run cells in a fresh kernel; returns the outputs of each."""
    monkeypatch.setenv("GRAMWATT_HOME", str(tmp_path / "gramwatt"))
    monkeypatch.setenv("GRAMWATT_ZONE", "FR")
    monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("PATH", os.environ["PATH"])

    def call(*texts: str) -> list[Any]:
        made = [nbformat.v4.new_code_cell(text) for text in texts]
        notebook = nbformat.v4.new_notebook(cells=made)
        NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
        return [cell.outputs for cell in notebook.cells]

    return call


def printed(outputs: list[Any]) -> str:
    return "".join(item["text"] for item in outputs if item["output_type"] == "stream")


def test_a_job_of_several_cells_has_a_window_for_each_and_awaits(cells):
    outputs = cells(
        "%load_ext gramwatt\n%load_ext gramwatt",
        "job = %gramwatt on --project vision --unit=image",
        "import asyncio\nawait asyncio.sleep(0.6)\njob.count(64)",
        "job.count(36)",
        "%gramwatt off",
        "import json\nprint(json.dumps(job.result))",
        "%gramwatt off",
        "job.result",
        "try:\n    get_ipython().run_cell('%%gramwatt\\n1/0')\nfinally:\n    pass",
        "first = %gramwatt on",
        "second = %gramwatt on",
        "print(first.id != second.id, first.result['state'])",
    )
    found = json.loads(printed(outputs[5]))
    assert (found["project"], found["state"]) == ("vision", "completed")
    assert [(item["unit"], item["count"]) for item in found["sci"]] == [("image", 100)]
    named = {item["name"]: item["counts"] for item in found["windows"]}
    assert [done for done in named.values() if done] == [{"image": 64}, {"image": 36}]
    assert next(iter(named)) == "cell-1"
    (line,) = printed(outputs[4]).splitlines()
    assert line.startswith("gramwatt: ")
    assert "per image" in line
    assert "no job runs in this notebook" in printed(outputs[6])
    (forms,) = [item["data"] for item in outputs[7] if "data" in item]
    assert "per image" in forms["text/html"]
    assert forms["text/plain"].count("\n") == 6
    assert "gramwatt: failed after " in printed(outputs[8]), "a cell that raises"
    assert printed(outputs[11]) == "True completed\n", "one that is run again begins anew"


def test_the_cells_of_the_documents_make_a_job(cells):
    (block,) = blocks("ipython", ROOT / "docs" / "integrations.md")
    outputs = cells(*block.splitlines())
    assert "per image" in printed(outputs[-1])
