"""What a job's report says: sections, figures and first lines, before any renderer."""

import re
from functools import partial
from io import BytesIO

import pytest
from msgspec import to_builtins
from pypdf import PdfReader

from gramwatt.collectors.cli.summary import summary_lines
from gramwatt.reports import job, pdf
from gramwatt.reports.model import (
    Chart,
    Column,
    Facts,
    Figures,
    Formula,
    Listing,
    NoticeBlock,
    Table,
    Text,
)
from gramwatt.reports.sections import PARTLY_READ, UNREAD
from gramwatt.sci.catalog.catalog import load_catalog
from gramwatt.sci.figures.formatting import UNKNOWN
from gramwatt.sci.suggest.evidence import OwnRow
from gramwatt.sci.suggest.jobs import for_job
from tests.blocks import blocks, cells, headings, plain, section, table, words
from tests.documents import (
    cluster_job,
    hostile_job,
    journal_of,
    scored,
    steady_job,
    unread_job,
    varied_job,
    world_job,
)
from tests.journals import H100, Load, Writer, metered
from tests.sci.score.test_service import journal
from tests.sci.score.test_windows import job as windowed
from tests.sci.score.test_windows import window

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
    # 4 x 1 kWh (5 %, boards of one type err alike) and 0.4 kWh (40 %):
    # sqrt((4 x 0.05)^2 + 0.16^2) = 0.26 kWh.
    energy = shown["Energy"]
    assert (energy.value, energy.unit, energy.span) == ("4.4", "kWh", "4.1 to 4.7")
    assert plain(shown["SCI per image"].note) == "for 1 281 167 image"
    assert shown["SCI per image"].unit == "mg\u00a0CO2e per image"
    assert [item.label for item in items if item.lead] == ["SCI per image", "Total carbon"]
    assert {"Grid intensity", "Site overhead (PUE)", "Making the hardware"} < set(shown)


def test_without_a_zone_the_first_block_says_so():
    first = full(steady_job(zone=None)).blocks[0]
    assert isinstance(first, NoticeBlock)
    assert first.severity == "warning"
    assert "world average" in first.text
    assert "not an SCI score" in first.text


def test_an_unknown_figure_is_never_zero():
    found = blocks(job.build(unread_job()), Figures)
    known = ("Making the hardware", "Site overhead (PUE)")  # E, I, C and C per R are not
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
    assert joules == pytest.approx(document.energy_kwh.value * 3.6e6)


def test_no_report_claims_certification():
    for document in (steady_job(), steady_job(zone=None), unread_job()):
        printed = words(full(document)).lower()
        assert "certified" not in printed
        assert "self-declared" in printed


def test_the_formula_has_the_numbers_in_it():
    [formula] = blocks(full(steady_job()), Formula)
    symbols, numbers, result = (plain(line) for line in formula.lines)
    assert symbols.startswith("SCI = ((E × I) + M) per R")
    document = steady_job()
    intensity = document.method.intensity_g_per_kwh.value
    assert numbers.startswith(f"= (4.4 kWh × {round(intensity, -1):.0f} gCO2e/kWh × 1.1 + ")
    assert numbers.endswith(") / 1 281 167 image")
    grams = document.sci[0].g_per_unit.value
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
    assert document.embodied_g.value == pytest.approx(56.16 + 244.01, abs=0.01)


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
        name: getattr(document, name).value for name in ("operational_g", "embodied_g", "total_g")
    }
    size = terms["total_g"] / bars[-1]["x2"]
    assert size == pytest.approx(1000)  # drawn in kg
    electricity = [bar for bar in bars if bar["name"] == "Electricity"]
    metered = document.data_quality.energy["measured"]
    assert [bar["estimated"] for bar in electricity] == [False, True]
    assert electricity[0]["x2"] == pytest.approx(terms["operational_g"] * metered / 1000)
    assert electricity[1]["x2"] == pytest.approx(terms["operational_g"] / 1000)
    hardware = bars[2]
    assert hardware["x"] == electricity[1]["x2"]
    assert hardware["x2"] - hardware["x"] == pytest.approx(terms["embodied_g"] / 1000)
    drawn = {row["name"]: (row["low"] * 1000, row["high"] * 1000) for row in ranges}
    assert drawn["Total"] == pytest.approx((document.total_g.low, document.total_g.high))
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


# Suggestions


def suggested(document, advice=None):
    return section(job.build(document, advice), "What to do")


def test_a_job_of_any_kind_is_told_a_better_hour():
    *_, rows = suggested(steady_job(kind="other", watts=300))
    assert rows.rows[0][0].startswith("Start ")


def test_likely_savings_are_a_table_with_their_ranges():
    tags = {"model_parameters": "8e9", "batch_size": "8", "precision": "bf16"}
    blocks = suggested(steady_job(kind="inference", tags=tags))
    rows = blocks[-1].rows
    assert rows[0][0] == "Batch 32 requests"
    change = rows[0][1]
    value, low, high = map(int, re.findall(r"\d+", f"{change.text} {change.below}"))
    assert high >= value >= low or low >= value >= high
    assert change.text.endswith("less")


def test_flags_are_printed_without_suggestions():
    blocks = suggested(steady_job(kind="training", watts=150, hours=12))
    assert any("48 device hours at little use" in getattr(block, "text", "") for block in blocks)


def test_a_job_without_accelerator_is_told_that_there_is_nothing_to_suggest():
    (text,) = suggested(unread_job(zone="DE"))
    assert "Hardware is not compared: it ran on processors alone." in text.text


def test_a_job_without_zone_is_told_how_to_name_it():
    assert "gramwatt job unread --set zone=DE" in suggested(unread_job())[0].text


def test_the_answer_that_is_passed_in_is_the_one_shown_and_named_in_the_reference():
    document = steady_job("train", kind="training", region="aws:eu-central-1", watts=300)
    document.region = "aws:eu-north-1"  # which has no cleaner one beside it
    base = {"workload": "vision/train", "workload_class": "training", "count": 1, "unit": "image"}
    rows = [
        {**base, "job_id": "1", "hardware": "nvidia-h100-sxm5-80", "units_per_s": 10},
        {**base, "job_id": "2", "hardware": "nvidia-b200", "units_per_s": 50},
    ]
    catalog = load_catalog()
    own = [OwnRow(**row, power_w=500) for row in rows]
    answer = for_job(document, catalog, own)
    rows = suggested(document, answer)[-1].rows
    assert "NVIDIA B200" in rows[0][0]
    assert rows[0][4] == "own runs of vision/train on both"
    assert job.build(document, answer).reference != job.build(document).reference
    assert job.build(document, answer) == job.build(document, answer)


def test_the_assumed_software_is_printed():
    tags = {"precision": "bf16", "batch_size": "8"}
    blocks = suggested(steady_job(kind="training", tags=tags, framework="pytorch"))
    printed = [block.text for block in blocks if isinstance(block, Text)]
    assert (
        "Suggestions for framework pytorch (recorded by the job), precision bf16 (a tag)."
        in printed
    )


# A job of which one device was not read


def partly_read():
    """A processor by model, and a GPU that nobody could read."""
    cpu = {"device_class": "cpu", "name": "Some CPU", "kind": "estimated"}
    devices = ("GPU-0", H100, []), ("n-1-cpu", cpu, [(0, 60, 60 * 200)])
    return scored(journal_of(*devices, pue=1.1))


def test_the_share_that_is_estimated_is_that_of_what_is_known():
    document = partly_read()
    assert document.energy_kwh is None
    printed = [n.message for n in document.notices if n.code == "energy-estimated"]
    assert printed == [
        "100% of the energy that is known is estimated by a model, not read from a meter. "
        "The job's energy is not known as a whole."
    ]


def test_the_report_says_that_shares_are_of_what_was_read():
    printed = words(full(partly_read()))
    assert PARTLY_READ in printed
    assert re.search(r"Energy that was read\s.*estimated", printed)
    assert not re.search(r"Energy\s[\d<]+ % ", printed)
    assert UNREAD in words(full(unread_job()))


def test_the_short_report_says_which_term_is_not_known():
    printed = words(job.build(partly_read()))
    assert "The total is not known, because this is not counted: Electricity." in printed
    assert "Waterfall" not in printed


def test_the_summary_says_so_too():
    summary = summary_lines(to_builtins(partly_read()), "-")
    (line,) = (row for row in summary if row.strip().startswith("Energy"))
    assert line.endswith("100 % estimated of what was read")


# Services


def served(minutes, **more):
    built = job.build(scored(journal(minutes, **more)))
    return {block.caption: block for block in blocks(built, Table)}


def rows_of(table):
    return [[plain(str(cell)) for cell in row] for row in table.rows]


def test_a_service_has_a_row_for_each_unit_and_part():
    found = served("iwwi", prefill_s=12.0, decode_s=108.0)
    per_unit = rows_of(found["Per request and token, idle time included"])
    assert [row[:2] for row in per_unit] == [["request", "20"], ["token", "1 000"]]
    assert per_unit[1][2].startswith("84.0 J/token (")
    parts = rows_of(found["What the energy was for"])
    assert [row[0].split()[0] for row in parts] == ["Prefill", "Decode", "Idle"]
    assert parts[0][1].startswith("2.0 Wh (0 to")
    assert parts[2][4] == "attributed: no counter of the server moved in that time"


def test_hours_are_shown_of_a_young_service_and_days_of_any():
    short, long = served("w" * 130), served("w" * 60 * 24 * 9)
    assert [row[0] for row in rows_of(short["By hour (UTC)"])] == [
        "2026-05-01 10:00",
        "2026-05-01 09:00",
        "2026-05-01 08:00",
    ]
    assert rows_of(short["By hour (UTC)"])[2][1:3] == ["600", "30 000"]
    assert "By hour (UTC)" not in long
    assert len(long["By day"].rows) == 7
    assert long["By day"].note == "The newest 7 of 10; the job's JSON has all."


def test_the_text_says_what_r_is_and_how_much_is_known():
    text = plain(section(job.build(scored(journal("-iw"))), "The service")[0].text)
    assert "cached prompt tokens are not in R" in text
    assert text.endswith("known for 67 % of the time; 50 prompt tokens were cached.")


# Factors, lifetimes, SCI for AI


TAGS = {"convert.token": "1e-6 million tokens; by definition; 2026", "unit_values": "gross"}


def test_a_plain_job_has_no_factors():
    found = headings(full(cluster_job()))
    assert "Conversion of units" not in found


def test_factors_are_printed_with_source_and_date():
    doc = cluster_job(tags=TAGS)
    built = full(doc)
    assert "Conversion of units" in headings(built)
    [row] = table(built, "Factors between functional units").rows
    assert plain(str(row[0])) == "1 token = 0.000001 million tokens"
    assert plain(str(row[1])) == "48 234 496 token"
    assert str(row[2]) == "by definition (2026)"


def test_the_sensitivity_table_has_the_score_of_each_lifetime():
    doc = cluster_job()
    rows = table(full(doc), "Embodied carbon, total and SCI by expected lifetime (EL)").rows
    assert [row[0] for row in rows] == ["3 years", "4 years", "5 years", "6 years"]
    kept = doc.embodied_g.value
    at_three = f"{kept * 4 / 3:.3g}"
    assert plain(str(rows[0][1])).startswith(at_three)


def test_the_facts_of_the_job_say_persona_and_values():
    [facts] = [b for b in blocks(full(cluster_job(tags=TAGS)), Facts) if b.rows[0][0] == "Name"]
    printed = dict(facts.rows)
    assert printed["SCI for AI"].startswith("A provider score of SCI for AI in training token")
    assert printed["Values"] == "gross"


def test_a_synthetic_meter_is_the_first_block_and_no_sci():
    first = full(cluster_job(notices=("meter-synthetic: read from nvml-synthetic.",))).blocks[0]
    assert isinstance(first, NoticeBlock)
    assert first.severity == "warning"
    assert "not an SCI score" in first.text


# Windows


def windows(document, build=full):
    return [t for t in blocks(build(document), Table) if t.caption == "Energy of the job's windows"]


def test_each_window_is_a_row_with_its_energy_and_that_per_unit():
    w = Writer()
    lines = (window(w, "epoch-1", 0, 300, "image", 60), window(w, "blink", 300, 300.1))
    (table,) = windows(scored(windowed(w, *lines)))
    first, second = table.rows
    assert [plain(str(cell)) for cell in first] == [
        "epoch-1",
        "5 min 0 s",
        "8.33 Wh (7.92 to 8.75)",
        "60 image",
        "500 J/image (475 to 525)",
    ]
    assert second[0] == "blink"
    assert (second[2], second[4]) == (job.SHORT, "")


def test_an_unknown_energy_is_named_and_a_long_list_is_cut():
    w = Writer()
    lines = [window(w, f"w-{n}", 5 * n, 5 * n + 5) for n in range(job.FULL_WINDOWS + 1)]
    found = scored(windowed(w, *lines, w.device("GPU-2")))
    (table,) = windows(found)
    assert len(table.rows) == job.FULL_WINDOWS
    assert {row[2] for row in table.rows} == {UNKNOWN}
    assert str(job.FULL_WINDOWS + 1) in table.note
    (short,) = windows(found, job.build)
    assert short.rows == table.rows[:6]
    assert short.note.startswith(f"The first 6 of {job.FULL_WINDOWS + 1}")


def test_a_job_without_windows_has_no_such_section():
    assert windows(steady_job()) == []


def test_the_cost_of_measuring_has_a_range():
    # 1.3 s x 3.35 W = 4.355 J, 0.42 to 1.75 times; the sample's meter says nothing of its memory
    (printed,) = section(full(steady_job()), "What measuring cost")
    assert "4.4 J (1.8 to 7.6)" in plain(printed.text)


def test_the_carbon_of_electricity_leads_where_the_hardware_is_not_known():
    document = steady_job()
    document.total_g = document.embodied_g = None
    figures, sentence, *_ = job.build(document).blocks[1:]
    assert figures.items[-1].label == "Carbon of electricity"
    assert figures.items[-1].value != "not known"
    assert sentence.text.startswith(
        "The total is not known, because this is not counted: Making the hardware."
    )
