"""What to ask suppliers for, and statements on the stages that no job measures."""

from gramwatt.reports.job import build
from gramwatt.sci.analysis.data_requests import DataRequest, data_requests
from tests.blocks import headings, table
from tests.documents import scored, steady_job
from tests.journals import Writer


def test_every_figure_that_is_modelled_has_somebody_to_ask():
    document = steady_job(kind="training")
    requests = data_requests(document)
    modelled = {t["label"] for t in document["embodied_terms"] if t["tier"] not in ("A", "B")}
    asked = {request.data for request in requests if request.data.startswith("life cycle study")}
    assert asked == {f"life cycle study of {label}, use excluded" for label in modelled}
    assert (
        DataRequest("grid operator of DE", "hourly carbon intensity", "the annual mean") in requests
    )
    assert not any("PUE" in request.data for request in requests)  # it was declared
    assert len(requests) == len(set(requests))


def test_an_undeclared_pue_and_an_unread_device_are_asked_for():
    writer = Writer()
    records = [
        writer.job(zone="FR", scheduler={"slurm_job_id": "7"}),
        writer.device("GPU-0", name="NVIDIA H100 80GB HBM3"),
        writer.end(60),
    ]
    requests = data_requests(scored(records))
    assert requests[0].supplier == "NVIDIA"
    assert requests[0].data == "a way to read the energy of NVIDIA H100 80GB HBM3"
    assert (
        DataRequest("operator of the data centre", "PUE measured over a year", "1.1 to 2.19")
        in requests
    )


def test_the_report_lists_them():
    document = steady_job(kind="training")
    rows = table(build(document, full=True), "Better data, by supplier").rows
    assert [tuple(row) for row in rows] == [tuple(request) for request in data_requests(document)]
    assert "Data to request" in headings(build(document, full=True))
