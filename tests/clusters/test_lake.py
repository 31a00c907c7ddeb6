"""A lake read by Spark, pandas and polars: Spark Connect, served by Sail without Java."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.collectors.doubles.processes import ROOT
from tests.service.cli.command import gramwatt
from tests.service.test_lake import differences, home, month_of

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
__all__ = ["home"]


@pytest.fixture
def spark(monkeypatch):
    """The address of a Spark Connect server, in SPARK_REMOTE too."""
    server = pytest.importorskip("pysail.spark").SparkConnectServer("127.0.0.1", 0)
    server.start(background=True)
    host, port = server.listening_address
    monkeypatch.setenv("SPARK_REMOTE", f"sc://{host}:{port}")
    yield f"sc://{host}:{port}"
    server.stop()


def test_spark_makes_the_month_of_the_store_and_of_duckdb(home, spark):
    assert gramwatt("export", "parquet", "--to", "lake")[0] == 0
    for arguments in (["2026-05"], ["2026-06"], ["2026-05", "--project", "vision"]):
        by_duckdb = month_of(*arguments, "--from", "lake")
        by_spark = month_of(*arguments, "--from", "lake", "--engine", "spark")
        assert differences(month_of(*arguments), json.loads(json.dumps(by_spark))) == []
        assert differences(by_duckdb, by_spark) == []
    code, _, err = gramwatt("month", "2026-04", "--from", "lake", "--engine", "spark")
    assert (code, err.startswith("gramwatt: no job in 2026-04")) == (1, True)


def test_pandas_polars_and_spark_read_what_the_docs_show(home, spark, monkeypatch):
    from pyspark.sql import SparkSession

    assert gramwatt("export", "parquet", "--to", "lake")[0] == 0
    [shown] = re.findall(
        r"```python lake\n(.*?)```", (ROOT / "docs/exports.md").read_text(), re.DOTALL
    )
    names: dict[str, Any] = {}
    imports, *statements = shown.strip().split("\n")
    exec(imports, names)
    # Sail, whose folder is that of the process, has none of its own.
    session = names["spark"] = SparkSession.builder.remote(spark).getOrCreate()
    try:
        results = [eval(line, names) for line in statements if line]
    finally:
        session.stop()
    by_duckdb, by_pandas, by_polars, by_spark = results
    # Three jobs of 108 kJ that began in May: 0.09 kWh.
    sums = {"2026-05": pytest.approx(0.09)}
    assert dict(by_duckdb.fetchall()) == by_pandas.to_dict() == sums
    assert dict(by_polars.rows()) == dict(tuple(row) for row in by_spark) == sums
