"""A job of which one device was not read: nothing says what is not true of the whole."""

from msgspec import to_builtins

from gramwatt.collectors.cli.summary import summary_lines
from gramwatt.reports.job import build
from gramwatt.reports.sections.common import PARTLY_READ, UNREAD
from tests.blocks import words
from tests.documents import scored, unread_job
from tests.journals import Writer


def partly_read():
    """A processor by model, and a GPU that nobody could read."""
    writer = Writer()
    return scored(
        [
            writer.job(zone="DE", pue=1.1),
            writer.device("GPU-0", name="NVIDIA H100 80GB HBM3"),
            writer.device("n-1-cpu", device_class="cpu", name="Some CPU", kind="estimated"),
            writer.interval(0, 60, 60 * 200, "n-1-cpu", kind="estimated"),
            writer.end(60),
        ]
    )


def test_the_share_that_is_estimated_is_that_of_what_is_known():
    document = partly_read()
    assert document.energy_kwh is None
    printed = [n.message for n in document.notices if n.code == "energy-estimated"]
    assert printed == [
        "100% of the energy that is known is estimated by a model, not read from a meter. "
        "The job's energy is not known as a whole."
    ]


def test_the_report_says_that_shares_are_of_what_was_read():
    printed = words(build(partly_read(), full=True))
    assert PARTLY_READ in printed
    assert "Energy that was read: estimated" in printed
    assert "Energy: estimated" not in printed
    assert UNREAD in words(build(unread_job(), full=True))


def test_the_short_report_says_which_term_is_not_known():
    printed = words(build(partly_read()))
    assert "The total is not known, because a term is not: Electricity (O)." in printed
    assert "Waterfall" not in printed


def test_the_summary_says_so_too():
    summary = summary_lines(to_builtins(partly_read()), "-")
    (line,) = (row for row in summary if row.strip().startswith("Energy"))
    assert line.endswith("100 % estimated of what was read")
