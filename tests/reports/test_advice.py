"""The suggestions in a job's report."""

from gramwatt.reports.advice import advice_blocks
from gramwatt.reports.document import Heading, Table, Text
from tests.reports.samples import job, unknown_job


def test_a_job_without_a_certain_saving_is_told_to_stay():
    heading, text = advice_blocks(job(kind="training"))
    assert heading == Heading("Suggestions")
    assert isinstance(text, Text)
    assert text.text.startswith("Of ")
    assert text.text.endswith("none saves carbon for certain: keep nvidia-h100-sxm5-80")


def test_certain_savings_are_a_table_with_their_ranges():
    tags = {"model_parameters": "8e9", "batch_size": "8", "precision": "bf16"}
    table = advice_blocks(job(kind="inference", tags=tags))[-1]
    assert isinstance(table, Table)
    assert [row[0] for row in table.rows][0] == "Batching"
    ratio = table.rows[0][1]
    low, high = (float(end) for end in ratio.below.split(" to "))
    assert low <= float(ratio.text) <= high < 1


def test_flags_are_said_even_where_nothing_else_is():
    blocks = advice_blocks(job(kind="training", watts=150, hours=12))
    assert any("48 device hours at little use" in getattr(block, "text", "") for block in blocks)


def test_a_job_without_accelerator_has_no_section():
    assert advice_blocks(unknown_job()) == []
