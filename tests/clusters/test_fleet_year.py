"""A year in the archive: restated on DuckDB and on Spark Connect, it is what scoring again gives.

The server is Sail, which speaks Spark Connect without Java; GRAMWATT_SPARK names another one.
"""

import os
import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from gramwatt.service.container import Service
from gramwatt.service.fleet.archive import archive_ended_months
from gramwatt.service.fleet.compute import ArchivedMonth, NewFactors
from gramwatt.service.fleet.engines import open_engine
from gramwatt.service.fleet.places import ArchiveError, Folder
from gramwatt.service.months.report import month_report
from gramwatt.service.operation.backfill import rescore_due
from gramwatt.service.operation.factors import rescore_on_new_factors
from tests.clusters.company_year import MONTHS, NOW, fill, hours, import_hours, opened

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet:FutureWarning")
OVERLAY = """
[zones.DE]
g_per_kwh = 311.0
year = 2026
source = "a test"
[pue."aws:eu-central-1"]
value = 1.4
source = "a test"
"""


@pytest.fixture(scope="module")
def spark() -> Iterator[str]:
    """The address of a server of Spark Connect."""
    if address := os.environ.get("GRAMWATT_SPARK"):
        yield address
        return
    from pysail.spark import SparkConnectServer

    server = SparkConnectServer()
    server.start(background=True)
    host, port = server.listening_address
    yield f"sc://{host}:{port}"
    server.stop()


@pytest.fixture(scope="module")
def year(tmp_path_factory):
    """The archived year; its totals as the store had them, and as scoring all again gives them."""
    folder = tmp_path_factory.mktemp("year")
    service = opened(folder, archive_to=str(folder / "archive"))
    fill(service, folder)
    before = {month: month_report(service, month, None) for month in MONTHS}
    assert archive_ended_months(service) == 13  # and the January after
    path = folder / "overlay.toml"
    path.write_text(OVERLAY)
    later = NOW + timedelta(days=1)
    config = replace(service.config, overlay=path, lifetime_years=5.0, clock=lambda: later)
    new = Service(config, service.store)
    import_hours(new, folder, 33.0)
    rescore_on_new_factors(new)
    rescore_due(new)
    after = {month: month_report(new, month, None) for month in MONTHS}
    yield Folder(folder / "archive"), before, after
    service.store.close()


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_a_year_restated_is_what_scoring_all_again_gives(engine, year, request):
    place, before, after = year
    opened_engine = open_engine(request.getfixturevalue("spark") if engine == "spark" else engine)
    hourly = {("SE", int(hour.timestamp() // 3600)): value for hour, value in hours(33.0)}
    factors = NewFactors(annual={"DE": 311.0}, hourly=hourly, pue={"DE": 1.4}, lifetime_years=5.0)
    for month in MONTHS:
        archived = ArchivedMonth(place, month, opened_engine)
        assert archived.summed()["totals"] == before[month]["totals"]
        assert all(check["is_equal"] for check in archived.audited()["checks"])
        found, now = archived.restated(factors), after[month]["totals"]
        known = [
            found["new_g"]["value"] - now["total_g"]["value"],
            found["by_cause"]["lifetime"]
            - (now["embodied_g"]["value"] - before[month]["totals"]["embodied_g"]["value"]),
        ]
        assert max(map(abs, known)) <= 1e-9 * now["total_g"]["value"]
        projects = {row["project"]: row["total_g"]["value"] for row in after[month]["by_project"]}
        found_g = sorted(row["new_g"] for row in found["projects"])
        assert found_g == pytest.approx(sorted(projects.values()), rel=1e-9)
    opened_engine.close()


def test_the_queries_of_pandas_and_spark_in_the_documents_are_the_month(year, spark):
    from pyspark.sql import SparkSession

    place, before, _ = year
    page = (Path(__file__).parents[2] / "docs" / "fleet.md").read_text()
    with_pandas, with_spark = (
        block.replace("/srv/archive", str(place.path)).replace("2026-03", MONTHS[2])
        for block in re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    )
    totals = before[MONTHS[2]]["totals"]
    exec(with_pandas.replace("print(", "found = ("), of := {})
    lines = ArchivedMonth(place, MONTHS[2], open_engine("duckdb")).lines()
    kwh = sum(project["energy_j"] for project in lines) / 3.6e6
    assert of["found"].sum() == pytest.approx(kwh, rel=1e-9)
    session = SparkSession.builder.remote(spark).create()
    rows = with_spark.replace(".show()", ".collect()").replace("spark.sql", "found = spark.sql")
    exec(rows, of := {"spark": session})
    grams = sum(row["grams"] for row in of["found"])
    assert grams == pytest.approx(totals["operational_g"]["value"], rel=1e-9)
    session.stop()


def test_what_is_no_server_of_spark_connect_is_refused_in_seconds(monkeypatch):
    monkeypatch.setattr("gramwatt.service.fleet.engines.CONNECT_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"sc://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ArchiveError, match="did not answer within 1 s"):
            open_engine(address)
