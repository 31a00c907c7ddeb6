"""The report's table of windows."""

from functools import partial

from gramwatt.reports import job as report
from gramwatt.reports.model import Table
from gramwatt.reports.sections.windows import MAX_ROWS, SHORT, window_blocks
from gramwatt.sci.base.formatting import UNKNOWN
from tests.documents import scored, steady_job
from tests.journals import Writer
from tests.sci.score.test_windows import job as records
from tests.sci.score.test_windows import window

build = partial(report.build, full=True)


def tables(document, **more):
    found = [block for block in build(document, **more).blocks if isinstance(block, Table)]
    return [table for table in found if table.caption == "Energy of the job's windows"]


def test_each_window_is_a_row_with_its_energy_and_that_per_unit():
    w = Writer()
    lines = (window(w, "epoch-1", 0, 300, "image", 60), window(w, "blink", 300, 300.1))
    (table,) = tables(scored(records(w, *lines)))
    first, second = table.rows
    assert [str(cell).replace("\u202f", " ") for cell in first] == [
        "epoch-1",
        "5 min 0 s",
        "8.33 Wh (7.92 to 8.75)",
        "60 image",
        "500 J/image (475 to 525)",
    ]
    assert second[0] == "blink"
    assert (second[2], second[4]) == (SHORT, "")


def test_an_unknown_energy_is_named_and_a_long_list_is_cut():
    w = Writer()
    lines = [window(w, f"w-{n}", 5 * n, 5 * n + 5) for n in range(MAX_ROWS + 1)]
    found = scored(records(w, *lines, w.device("GPU-2")))
    (table,) = tables(found)
    assert len(table.rows) == MAX_ROWS
    assert {row[2] for row in table.rows} == {UNKNOWN}
    assert str(MAX_ROWS + 1) in table.note
    (short,) = tables(found, full=False)
    assert short.rows == table.rows[:6]
    assert short.note.startswith(f"The first 6 of {MAX_ROWS + 1}")


def test_a_job_without_windows_has_no_such_section():
    assert window_blocks([]) == []
    assert tables(steady_job()) == []


def test_the_cost_of_measuring_has_a_range():
    texts = [block.text for block in build(steady_job()).blocks if hasattr(block, "text")]
    # 1.3 s x 3.35 W = 4.355 J, 0.42 to 1.75 times; the sample's meter says nothing of its memory
    (printed,) = [text for text in texts if text.startswith("Measuring took")]
    assert "4.4\u202fJ (1.8 to 7.6)" in printed
