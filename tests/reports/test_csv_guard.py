"""No CSV of gramwatt has a cell that a spreadsheet runs, whichever list separator it splits at."""

import ast
import csv
import io

import msgspec
import pytest

from gramwatt.reports.csv import month_csv
from gramwatt.reports.delimited import SEPARATOR
from gramwatt.reports.exports.csv import scicsv
from tests.documents import month_of, steady_job
from tests.packages import PACKAGES, ROOT

SIGNS = "=+-@\uff1d\uff0b\uff0d\uff20"
LEADS = ("", " ", "  ", "\n", "\r", "\t", "\x00", "\x1f", "\u00a0", "\u3000", "\ufeff", "\u200b")
FORMULAS = [f"{lead}{sign}1+1" for sign in SIGNS for lead in LEADS]
SPLIT = [
    f"a{separator}{lead}{sign}1+1{separator}b"
    for separator in ";,\t"
    for lead in ("", " ", '"')
    for sign in SIGNS
]

PLACE = "placeholder"
JOB = steady_job("a", project=PLACE, name=PLACE, model_id=PLACE)
DOCUMENTS = {"month": month_of([JOB]), "job": JOB}
WRITERS = {"month": month_csv, "job": lambda document, mark: scicsv(document, mark=mark)}


def written(writer, text, mark):
    """The CSV of a document in which people wrote this text."""

    def put(node):
        if isinstance(node, dict):
            return {name: put(value) for name, value in node.items()}
        if isinstance(node, list):
            return [put(value) for value in node]
        return node.replace(PLACE, text) if isinstance(node, str) else node

    document = DOCUMENTS[writer]
    data = put(msgspec.to_builtins(document))
    return WRITERS[writer](msgspec.convert(data, type(document)), mark)


def is_number(cell):
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return False
    return True


def cells(text, separator):
    for row in csv.reader(io.StringIO(text), delimiter=separator):
        yield from row


@pytest.mark.parametrize("mark", [".", ","])
@pytest.mark.parametrize("writer", WRITERS)
def test_no_cell_is_a_formula_in_any_locale(writer, mark):
    for text in (*FORMULAS, *SPLIT):
        table = written(writer, text, mark)
        assert "1+1" in table
        for separator in ",;\t":
            for cell in cells(table, separator):
                begin = cell.strip(' \t\r\n\xa0\u3000\ufeff\u200b"')
                assert begin[:1] not in SIGNS or not begin or is_number(cell), (separator, cell)


@pytest.mark.parametrize("mark", [".", ","])
@pytest.mark.parametrize("writer", WRITERS)
def test_a_plain_text_and_a_figure_are_as_they_are(writer, mark):
    text = 'a "b", c; d (x - y = z)'
    rows = list(csv.DictReader(io.StringIO(written(writer, text, mark)), delimiter=SEPARATOR[mark]))
    assert any(text in row["name"] for row in rows)
    numbers = [row["value"] for row in rows if is_number(row["value"])]
    assert any(mark in number for number in numbers)
    assert not any(("," if mark == "." else ".") in number for number in numbers)


def test_every_csv_is_written_in_one_place():
    found = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if ast.unparse(node) in ("csv.writer", "csv.DictWriter"):
                    found.add(path.relative_to(ROOT).as_posix())
    assert found == {"reports/delimited.py"}
