"""The suggestions in a job's report."""

from gramwatt.reports.job import build
from gramwatt.reports.model import Heading, Table, Text
from gramwatt.reports.sections.advice import NOTHING, advice_blocks, packaged_advice
from gramwatt.sci.advice.jobs import for_job
from gramwatt.sci.advice.prediction.own_runs import OwnRow
from gramwatt.sci.catalog.catalog import load_catalog
from tests.documents import steady_job, unread_job


def suggested(document):
    return advice_blocks(document, packaged_advice(document))


def test_a_job_without_a_certain_saving_should_stay():
    heading, text = suggested(steady_job(kind="training", watts=300))
    assert heading == Heading("What to do")
    assert isinstance(text, Text)
    assert text.text.startswith("Of ")
    assert text.text.endswith("none saves carbon for certain: keep nvidia-h100-sxm5-80")


def test_certain_savings_are_a_table_with_their_ranges():
    tags = {"model_parameters": "8e9", "batch_size": "8", "precision": "bf16"}
    table = suggested(steady_job(kind="inference", tags=tags))[-1]
    assert isinstance(table, Table)
    assert [row[0] for row in table.rows][0] == "Batching"
    ratio = table.rows[0][1]
    low, high = (float(end) for end in ratio.below.split(" to "))
    assert low <= float(ratio.text) <= high < 1


def test_flags_are_printed_without_suggestions():
    blocks = suggested(steady_job(kind="training", watts=150, hours=12))
    assert any("48 device hours at little use" in getattr(block, "text", "") for block in blocks)


def test_a_job_without_accelerator_is_told_that_nothing_certain_is_known():
    assert suggested(unread_job(zone="DE")) == [Heading("What to do"), Text(NOTHING)]


def test_a_job_without_zone_is_told_how_to_name_it():
    assert "gramwatt job unread --set zone=DE" in suggested(unread_job())[1].text


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
    table = advice_blocks(document, answer)[-1]
    assert "Change hardware to nvidia-b200" in [row[0] for row in table.rows]
    assert build(document, answer).reference != build(document).reference
    assert build(document, answer) == build(document, answer)


def test_the_assumed_software_is_printed():
    tags = {"precision": "bf16", "batch_size": "8"}
    blocks = suggested(steady_job(kind="training", tags=tags, framework="pytorch"))
    printed = [block.text for block in blocks if isinstance(block, Text)]
    assert (
        "Suggestions for framework pytorch (recorded by the job), precision bf16 (a tag)."
        in printed
    )
