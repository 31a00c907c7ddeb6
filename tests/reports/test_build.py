"""What the reports say: sections, figures and first lines, before any renderer."""

from functools import partial
from io import BytesIO

import pytest
from pypdf import PdfReader

from gramwatt.reports import job, pdf
from gramwatt.reports.model import Chart, Column, Figures, Formula, Listing, NoticeBlock, Table
from gramwatt.sci.base.formatting import UNKNOWN
from tests.blocks import blocks, cells, headings, plain, table, words
from tests.documents import (
    cluster_job,
    hostile_job,
    scored,
    steady_job,
    unread_job,
    varied_job,
    world_job,
)
from tests.journals import Load, Writer, metered

SHORT = ["Summary", "Why", "What to do", "What is uncertain", "Where the energy went"]
SECTIONS = [
    *SHORT,
    "The job",
    "The score and its terms",
    "Embodied carbon in parts",
    "Sensitivity to hardware lifetime",
    "Devices",
    "Data quality",
    "Notices",
    "Sources",
    "Method and boundary",
    "Inside the boundary",
    "Outside the boundary",
    "Ranges and digits",
    "What measuring cost",
]


full = partial(job.build, full=True)


def test_a_job_report_has_every_section_in_order():
    assert headings(full(steady_job())) == SECTIONS
    assert headings(job.build(steady_job())) == SHORT


def test_the_summary_shows_each_term_with_its_range():
    document = steady_job()
    items = [item for figures in blocks(job.build(document), Figures) for item in figures.items]
    shown = {item.label: item for item in items}
    # 4 x 1 kWh (5 % each, half of the variance shared by boards of one type) and 0.4 kWh (40 %):
    # sqrt((4 x 0.05)^2 / 2 + 4 x 0.05^2 / 2 + 0.16^2) = 0.22 kWh.
    energy = shown["Energy (E)"]
    assert (energy.value, energy.unit, energy.span) == ("4.4", "kWh", "range 4.2 to 4.6")
    assert plain(shown["SCI per image"].note) == "R = 1 281 167 image"
    assert shown["SCI per image"].unit == "mg\u00a0CO2e per image"
    assert [item.label for item in items if item.lead] == ["SCI per image", "Total carbon (O + M)"]
    assert {"Grid intensity (I)", "Site overhead (PUE)", "Embodied carbon (M)"} < set(shown)


def test_without_a_zone_the_first_block_says_so():
    first = full(steady_job(zone=None)).blocks[0]
    assert isinstance(first, NoticeBlock)
    assert first.severity == "warning"
    assert "world average" in first.text
    assert "not an SCI score" in first.text


def test_an_unknown_figure_is_never_zero():
    found = blocks(job.build(unread_job()), Figures)
    known = ("Embodied carbon (M)", "Site overhead (PUE)")  # E, I, C and C per R are not
    shown = [item.value for figures in found for item in figures.items if item.label not in known]
    assert shown == [UNKNOWN] * 4
    assert "No energy was read." in words(full(unread_job()))


def test_every_input_has_its_source_in_the_table():
    document = steady_job()
    [table] = [
        b for b in full(document).blocks if isinstance(b, Table) and b.caption.startswith("Inputs")
    ]
    listed = {row[0] for row in table.rows}
    assert listed == {row.what for row in document.method.inputs}
    assert all(row[-1] for row in table.rows)


def panels(document):
    """The rows of each panel of the chart over time, from the top."""
    [chart] = [b for b in blocks(job.build(document), Chart) if b.caption.startswith("Mean power")]
    return [panel["layer"][-1]["data"]["values"] for panel in chart.spec["vconcat"]]


def test_the_chart_holds_the_energy_of_the_job():
    document = steady_job()
    rows = panels(document)[0]
    # Bars are mean kilowatts over a step in minutes: their area is the energy.
    joules = sum(1000 * row["y"] * (row["x2"] - row["x"]) * 60 for row in rows)
    assert joules == pytest.approx(document.energy_kwh["value"] * 3.6e6)


def test_no_report_claims_certification():
    for document in (
        steady_job(),
        steady_job(zone=None),
        unread_job(),
    ):
        printed = words(full(document)).lower()
        assert "certified" not in printed
        assert "self-declared" in printed


def test_the_formula_has_the_numbers_in_it():
    [formula] = blocks(full(steady_job()), Formula)
    symbols, numbers, result = (plain(line) for line in formula.lines)
    assert symbols.startswith("SCI = ((E × I) + M) per R")
    document = steady_job()
    intensity = document.method.intensity_g_per_kwh["value"]
    assert numbers.startswith(f"= (4.4 kWh × {round(intensity, -1):.0f} gCO2e/kWh × 1.1 + ")
    assert numbers.endswith(") / 1 281 167 image")
    grams = document.sci[0].g_per_unit["value"]
    assert result.startswith(f"= {grams * 1000:.1f} mg CO2e per image (range ")


def test_an_unknown_score_is_named_in_the_formula():
    [formula] = blocks(full(unread_job()), Formula)
    assert formula.lines[-1] == "= not known: a term is missing"


def test_embodied_carbon_in_parts_adds_up_to_the_whole():
    document = varied_job(gpus=4)
    parts = table(full(document), "M = TE")
    assert [plain(row[0].text) for row in parts.rows] == [
        "NVIDIA H100 80GB HBM3 (4 alike)",
        "host, the share of 4 of 8 accelerators",
    ]
    # 4 x 164 kg x 3 h / 4 years and 4/8 x 5.7 t x 3 h / 4 years, in grams.
    assert [cells(row)[-1] for row in parts.rows] == ["56 g CO2e", "240 g CO2e"]
    assert document.embodied_g["value"] == pytest.approx(56.16 + 244.01, abs=0.01)


def test_use_and_a_changing_grid_are_panels_below_the_power():
    document = varied_job()
    _, busy, grid = panels(document)
    # Warm-up until minute 10, as the journal says; the grid falls from 280 by 17.5 an hour.
    assert [row["y"] for row in busy][:12] == pytest.approx([35] * 10 + [85] * 2)
    assert sorted({row["y"] for row in grid}) == pytest.approx([245, 262.5, 280])
    assert len(panels(steady_job())) == 2  # power and use: the annual intensity does not change


def test_the_waterfall_is_drawn_from_the_terms_and_light_where_nobody_metered():
    document = varied_job(gpus=4)
    [chart] = [b for b in blocks(job.build(document), Chart) if b.alt.startswith("Waterfall")]
    bars, ranges, _, labels = (layer["data"]["values"] for layer in chart.spec["layer"])
    terms = {
        name: getattr(document, name)["value"]
        for name in ("operational_g", "embodied_g", "total_g")
    }
    size = terms["total_g"] / bars[-1]["x2"]
    assert size == pytest.approx(1000)  # drawn in kg
    electricity = [bar for bar in bars if bar["name"] == "Electricity (O)"]
    metered = document.data_quality.energy["measured"]
    assert [bar["estimated"] for bar in electricity] == [False, True]
    assert electricity[0]["x2"] == pytest.approx(terms["operational_g"] * metered / 1000)
    assert electricity[1]["x2"] == pytest.approx(terms["operational_g"] / 1000)
    hardware = bars[2]
    assert hardware["x"] == electricity[1]["x2"]
    assert hardware["x2"] - hardware["x"] == pytest.approx(terms["embodied_g"] / 1000)
    drawn = {row["name"]: (row["low"] * 1000, row["high"] * 1000) for row in ranges}
    assert drawn["Total (C = O + M)"] == pytest.approx(
        (document.total_g["low"], document.total_g["high"])
    )
    assert [row["name"] for row in labels] == [row[0] for row in chart.data.rows]


def test_a_job_of_thirty_seconds_and_one_of_many_boards_have_two_pages():
    writer = Writer()
    cpu = {"device_class": "cpu", "name": "Some CPU"}
    short = scored(
        [
            writer.job(role="command", name="python train.py", zone="DE"),
            *metered(writer, [Load("cpu", lambda _: 60, cpu, "estimated")], seconds=30, step_s=10),
            writer.end(30, exit_code=0),
        ]
    )
    cluster = cluster_job(gpus=8, nodes=("n-a", "n-b", "n-c"))
    for document in (short, cluster, world_job(), hostile_job('<b>=A1 \u202e🚀 "x' * 40)):
        assert len(PdfReader(BytesIO(pdf.render(job.build(document)))).pages) == 2


def test_many_devices_are_gathered_in_the_chart_and_listed_in_the_table():
    document = varied_job(gpus=16, hours=0.5)
    built = full(document)
    [shares] = [b for b in blocks(built, Chart) if b.caption == "Share of the energy by device"]
    rows = shares.spec["data"]["values"]
    assert len(rows) == 11
    assert rows[-1]["name"] == "8 more"
    assert sum(row["share"] for row in rows) == pytest.approx(1)
    assert len(table(built, "Energy and embodied carbon by device").rows) == len(document.devices)


def test_how_the_devices_ran_names_what_held_them_back_and_leaves_out_what_is_not_reported():
    ran = table(full(varied_job(hours=1.0)), "How the devices ran")
    by_board = [cells(row) for row in ran.rows]
    assert [row[5] for row in by_board] == ["66 °C", "61 °C", "61 °C", "61 °C"]
    # Against its limit in 9 of 12 spans of 5 minutes: 2 of warm-up and 1 of pause are not.
    assert [row[6] for row in by_board] == ["power limit 60 %, heat 5 %", "", "nothing", "nothing"]
    assert [row[3] for row in by_board] == ["38 %"] * 4  # half of the mean use, 75 %


def test_every_deviation_is_listed():
    document = world_job()
    listed = [item for block in blocks(full(document), Listing) for item in block.items]
    assert len(document.deviations) == 2
    assert set(document.deviations) <= set(listed)


def test_the_same_data_has_the_same_reference_and_other_data_another():
    first, again = full(steady_job()), full(steady_job())
    assert first.reference == again.reference
    assert first.reference != full(steady_job(watts=501)).reference


def test_a_row_of_the_wrong_length_is_refused():
    with pytest.raises(ValueError, match="2 columns"):
        Table("T", (Column("a"), Column("b")), (("1", "2"), ("3",)))


def test_what_is_not_an_sci_is_not_called_one():
    built = full(world_job())
    assert blocks(built, Figures)[0].items[0].label == "Carbon per job"
    assert "SCI" not in {row[0] for row in table(built, "Terms of this job").rows}
    terms = {row[0]: cells(row) for row in table(full(varied_job()), "Terms").rows}
    assert terms["SCI"][1:3] == ["carbon per image", "570 µg CO2e/image"]
    assert terms["R"][2:] == ["3 843 501", "exact"]
