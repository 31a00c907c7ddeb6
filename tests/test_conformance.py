"""docs/conformance.md answers every item of the checklist, and names code and tests that exist."""

from __future__ import annotations

import json
import re
from typing import get_type_hints

import pytest

from gramwatt.sci.estimate.request import EstimateRequest
from gramwatt.sci.figures import document
from gramwatt.sci.month import documents
from gramwatt.sci.records.records import TYPES
from tests.packages import ROOT

TEXT = (ROOT / "docs" / "conformance.md").read_text("utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in TEXT.splitlines()
    if re.match(r"\| \d+ \|", line)
]
NAMED = re.compile(r"`([\w/]+\.py)(?:::(\w+))?`")


def test_all_items_are_answered_in_order():
    assert [int(row[0]) for row in ROWS] == list(range(1, 43))
    assert {len(row) for row in ROWS} == {7}
    assert {row[4] for row in ROWS} == {"done", "partly", "not done"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_code_and_test_exist(row):
    _, _, _, _, status, code, test = row
    if status == "not done":
        assert (code, test) == ("", "")
        return
    for cell in (code, test):
        found = NAMED.findall(cell)
        assert found, cell
        for path, function in found:
            text = (ROOT / path).read_text("utf-8")
            assert not function or f"def {function}(" in text


def test_the_counts_it_gives_are_those_of_the_data():
    data = ROOT / "tests" / "data"
    examples = json.loads((data / "sci_worked_examples.json").read_text("utf-8"))["examples"]
    vectors = json.loads((data / "if_vectors.json").read_text("utf-8"))["vectors"]
    with_numbers = sum(example["inputs"] is not None for example in examples)
    assert f"({len(examples)} entries, {with_numbers} with numbers)" in TEXT
    assert sum(e["published_arithmetic"] == "wrong" for e in examples) == 11
    assert "Eleven of those publications" in TEXT
    assert f"{len(vectors)} runs of Impact Framework" in TEXT


def test_no_field_takes_a_market_figure():
    """Offsets, certificates and contracts have no way into a record, a question or a score.

    A month's document has a market-based memo beside the sums.
    """
    shapes = (*TYPES.values(), EstimateRequest)
    names = {name for shape in shapes for name in shape.__struct_fields__}
    memo = (documents.MonthDoc, documents.MarketRow)
    shapes = [shape for name, shape in vars(document).items() if name.endswith(("Doc", "Head"))]
    shapes = [shape for shape in shapes if shape not in memo]
    names |= {name for shape in shapes for name in get_type_hints(shape)}
    assert {"energy_j", "intensity_g_per_kwh", "te_g"} <= names
    words = {word for name in names for word in name.split("_")}
    market = {"market", "offset", "offsets", "credit", "certificate", "rec", "eac", "go", "ppa"}
    assert words & market == set()
