"""The threat model: each row names the tests that hold it, and they are there."""

import ast
import re

from tests.packages import ROOT

NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def test_each_row_of_the_threat_model_names_tests_that_exist():
    text = (ROOT / "docs" / "security.md").read_text("utf-8")
    what = text.partition("\n## What\n")[2].partition("\n## ")[0]
    rows = [row for row in what.splitlines() if row.startswith("| ")][1:]
    assert len(rows) > 20
    assert [row for row in rows if not NAMED.search(row.split("|")[4])] == []
    absent = []
    for path, name in NAMED.findall(text):
        tree = ast.parse((ROOT / path).read_text("utf-8")) if (ROOT / path).exists() else None
        if tree is None or name not in {getattr(node, "name", "") for node in tree.body}:
            absent.append(f"{path}::{name}")
    assert absent == []
