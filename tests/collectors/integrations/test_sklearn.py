"""scikit-learn's own callbacks, and estimators inside others."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

SCRIPT = """
import json, numpy
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from gramwatt.integrations.sklearn import GramwattCallback

x = numpy.random.default_rng(0).random((100, 3))
y = (x[:, 0] > 0.5).astype(int)
small = LogisticRegression(max_iter=3)
jobs = []
for estimator in (small, make_pipeline(StandardScaler(), LogisticRegression(max_iter=3)),
                  GridSearchCV(LogisticRegression(max_iter=3), {"C": [1, 2]}, cv=2, n_jobs=2)):
    callback = GramwattCallback(project="tables")
    estimator.set_callbacks(callback).fit(x, y)
    jobs.append(callback.job)
try:
    small.set_callbacks(callback).fit(x, y[:50])
except ValueError:
    jobs.append(callback.job)
for job in jobs:
    print("DOCUMENT " + json.dumps(job.result))
"""


@pytest.mark.long
def test_every_fit_counts_its_rows_also_in_workers(tmp_path):
    environ = {**os.environ, "GRAMWATT_HOME": str(tmp_path), "GRAMWATT_ZONE": "FR"}
    line = [sys.executable, "-W", "ignore", "-c", SCRIPT]
    done = subprocess.run(line, env=environ, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = [text for text in done.stdout.splitlines() if text.startswith("DOCUMENT ")]
    found = [json.loads(text.removeprefix("DOCUMENT ")) for text in lines]
    counted = [{item["unit"]: item["count"] for item in job["sci"]} for job in found[:3]]
    # The search fits 2 settings on 2 halves and the better one on all.
    assert counted == [*[{"sample": 100, "fit": 1}] * 2, {"sample": 300, "fit": 5}]
    assert [job["state"] for job in found[:3]] == ["completed"] * 3
