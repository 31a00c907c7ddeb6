"""The tables of a month and the CSV of a job: figures in full, nothing that a spreadsheet runs."""

import csv
import io
import re

import msgspec
import openpyxl
import pytest

from gramwatt.reports.delimited import delimited
from gramwatt.reports.exports.csv import scicsv
from gramwatt.reports.tables import as_xlsx, as_zip, month_tables
from gramwatt.sci.month.revised import JobRow
from tests.documents import full_month, month_of, steady_job, unread_job
from tests.packages import PACKAGES, ROOT
from tests.tables import month_of_tables, tables_of

NAMES = ["month", "projects", "owners", "jobs", "outside", "days", "factors", "sources"]
NAMED = {"name": "train", "kind": "training", "started_at": "2026-05-03T08:00:00Z"}
ROWS = [
    JobRow("a", "vision", 2, 4.5, 1200.0, 300.0, **NAMED),
    JobRow("=1+1", "p", 1, None, None, 300.0),
]
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


@pytest.fixture(scope="module")
def sheets():
    return month_tables(full_month(), ROWS)


@pytest.fixture(scope="module")
def tables(sheets):
    return tables_of(as_zip(sheets))


def test_sheets_and_csv_files_hold_the_same_and_are_the_same_each_time(sheets, tables):
    book = openpyxl.load_workbook(io.BytesIO(as_xlsx(sheets)))
    assert book.sheetnames == list(tables) == NAMES
    for sheet in book:
        titles, *rows = sheet.iter_rows(values_only=True)
        read = [dict(zip(titles, row, strict=True)) for row in rows]
        assert len(read) == len(tables[sheet.title])
        for of_xlsx, of_csv in zip(read, tables[sheet.title], strict=True):
            assert list(of_xlsx) == list(of_csv)
            for title, text in of_csv.items():
                value = of_xlsx[title]
                if isinstance(value, int | float):  # Excel has 16 digits
                    assert float(text) == pytest.approx(value, rel=1e-15)
                else:
                    assert text.removeprefix("'") == (value or "")
    for write in (as_xlsx, as_zip):
        assert write(sheets) == write(month_tables(full_month(), ROWS))


def test_figures_are_in_kwh_and_kg_with_every_digit(tables):
    document = full_month()
    of_month = month_of_tables(tables)
    for title, unit, figure, size in (
        ("Energy", "kWh", document.totals.energy_kwh, 1),
        ("Carbon", "kg CO2e", document.totals.total_g, 1000),
    ):
        for name, end in (("", "value"), (" low", "low"), (" high", "high")):
            assert float(of_month[f"{title}{name}"]) == getattr(figure, end) / size
        assert (of_month[f"{title} kind"], of_month[f"{title} unit"]) == (figure.kind, unit)
    assert (of_month["Month"], of_month["Jobs"], of_month["Jobs unit"]) == ("2026-05", "24", "")
    project = next(row for row in tables["projects"] if row["Project"] == "speech")
    assert (float(project["Units (R)"]), project["Unit"]) == (
        pytest.approx(sum(1_281_167 * (1 + n % 5) for n in range(1, 24, 3))),
        "second of audio",
    )
    score = float(project["SCI, kg CO2e per unit"])
    assert score == pytest.approx(float(project["Carbon, kg CO2e"]) / float(project["Units (R)"]))
    assert [row["Energy, kWh"] for row in tables["jobs"]] == ["4.5", ""]
    assert [row["Name"] for row in tables["jobs"]] == ["train", ""]
    assert tables["jobs"][0]["Started, UTC"] == "2026-05-03 08:00"
    assert [row["Operational, kg CO2e"] for row in tables["jobs"]] == ["1.2", ""]
    assert [row["Carbon, kg CO2e"] for row in tables["jobs"]] == ["1.5", ""]


@pytest.mark.parametrize("name", ["owners", "days"])
def test_the_parts_add_up_to_the_month(tables, name):
    kwh = sum(float(row["Energy, kWh"]) for row in tables[name])
    assert kwh == pytest.approx(full_month().totals.energy_kwh.value)


def test_an_unknown_figure_is_an_empty_cell():
    of_month = month_of_tables(tables_of(as_zip(month_tables(month_of([unread_job()]), []))))
    names = ("Energy", "Energy low", "Energy kind", "Jobs")
    assert [of_month[name] for name in names] == ["", "", "", "1"]


def test_every_source_has_a_row_with_where_it_is_from(tables):
    rows = tables["sources"]
    assert list(dict.fromkeys(row["Source"] for row in rows)) == full_month().sources
    assert "nvidia-pcf-h100" in {row["Key"] for row in rows if row["Link"].startswith("https://")}


def test_a_table_longer_than_a_sheet_goes_on_in_another(sheets, monkeypatch):
    monkeypatch.setattr("gramwatt.reports.tables.MAX_ROWS", 1)
    book = openpyxl.load_workbook(io.BytesIO(as_xlsx(sheets)))
    assert [book[name]["A2"].value for name in ("jobs", "jobs 2")] == ["a", "=1+1"]
    assert "jobs 3" not in book.sheetnames


def texts_written(text):
    """Every CSV that the product writes of documents in which people wrote this text."""

    def put(node):
        if isinstance(node, dict):
            return {name: put(value) for name, value in node.items()}
        if isinstance(node, list):
            return [put(value) for value in node]
        return node.replace(PLACE, text) if isinstance(node, str) else node

    for document in (MONTH, JOB):
        written = msgspec.convert(put(msgspec.to_builtins(document)), type(document))
        if document is JOB:
            yield scicsv(written)
        else:
            for sheet in month_tables(written, [JobRow(text, text, 1, None, None, None)]):
                yield delimited(sheet.titles, sheet.rows())


JOB = steady_job("a", project=PLACE, name=PLACE, model_id=PLACE)
MONTH = month_of([JOB])


def is_number(cell):
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return False
    return True


def test_no_cell_is_a_formula_whichever_separator_a_spreadsheet_splits_at():
    for text in (*FORMULAS, *SPLIT):
        made = "\n".join(texts_written(text))
        assert "1+1" in made
        for separator in ",;\t":
            for row in csv.reader(io.StringIO(made), delimiter=separator):
                for cell in row:
                    begin = cell.strip(' \t\r\n\xa0\u3000\ufeff\u200b"')
                    assert begin[:1] not in SIGNS or not begin or is_number(cell), (separator, cell)


def test_a_plain_text_is_as_it_is():
    text = 'a "b", c; d (x - y = z)'
    (row,) = csv.reader(io.StringIO(delimited([text], [])))
    assert row == [text]
    assert delimited(["a"], [[text], [1.5], [None]]).splitlines()[2:] == ["1.5", '""']


def test_no_text_of_a_sheet_is_a_formula():
    rows = [JobRow(text, text, 1, None, None, None) for text in FORMULAS]
    book = openpyxl.load_workbook(io.BytesIO(as_xlsx(month_tables(MONTH, rows))))
    kinds = {cell.data_type for sheet in book for row in sheet.iter_rows() for cell in row}
    assert kinds == {"s", "n"}


def test_every_csv_is_written_in_one_place():
    writers = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if re.search(r"csv\.(writer|DictWriter)\b", path.read_text("utf-8"))
    }
    assert writers == {"reports/delimited.py"}
