"""What all integrations share: sizes of batches, failures, and jobs that are part of others."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy
import pytest

from gramwatt.collectors.integrations.doors import MlflowContext, lightning_callbacks
from gramwatt.collectors.integrations.pytorch import count_batches
from gramwatt.collectors.integrations.tracked_run import TrackedRun, batch_size, harmless, tokens_of
from gramwatt.collectors.track import messages
from gramwatt.collectors.track.trackers import log_to_mlflow, log_to_wandb


@pytest.mark.parametrize(
    ("batch", "size"),
    [
        (numpy.zeros((8, 3)), 8),
        ((numpy.zeros((8, 3)), numpy.zeros(8)), 8),
        ({"mask": None, "input_ids": numpy.zeros((4, 16))}, 4),
        ([{"x": numpy.zeros((5, 2))}], 5),
        (["a text", "another"], 2),
        ([1.0, 2.0, 3.0], 3),
        (numpy.float64(1.0), 1),
        (None, 0),
        ("a text", 0),
        ([], 0),
    ],
)
def test_the_size_of_a_batch_is_the_length_of_its_first_array(batch, size):
    assert batch_size(batch) == size


def test_only_batches_with_token_ids_have_tokens():
    class Ids:
        def numel(self) -> int:
            return 64

    assert tokens_of({"input_ids": Ids()}) == 64
    assert [tokens_of(batch) for batch in ({}, None, [1], {"input_ids": 3})] == [0, 0, 0, 0]


def test_a_callback_that_raises_is_noted_once_and_raises_nothing():
    class Callback:
        def __init__(self) -> None:
            self._run = TrackedRun()
            self.told: list[tuple[str, str]] = []
            self._run.job = self  # type: ignore[assignment]

        def send_notice(self, code: str, text: str) -> None:
            self.told.append((code, text))

        @harmless
        def on_step(self) -> None:
            raise KeyError("batch")

    callback = Callback()
    callback.on_step()
    callback.on_step()
    ((code, text),) = callback.told
    assert (code, text) == (
        "integration-failed",
        "Callback.on_step of gramwatt failed: KeyError('batch')",
    )


def test_doors_are_closed_until_a_variable_asks(monkeypatch, capsys):
    monkeypatch.setenv("GRAMWATT_JOB_ID", "job-1")
    assert not MlflowContext().in_context()
    assert lightning_callbacks() == []
    monkeypatch.setenv("GRAMWATT_MLFLOW", "1")
    assert MlflowContext().in_context()
    assert MlflowContext().tags() == {"gramwatt.job_id": "job-1"}
    monkeypatch.delenv("GRAMWATT_JOB_ID")
    assert not MlflowContext().in_context()
    monkeypatch.setenv("GRAMWATT_LIGHTNING", "1")
    assert lightning_callbacks() == []  # Lightning is not installed here
    assert "GRAMWATT_LIGHTNING=1 has no effect" in capsys.readouterr().err


def test_a_loader_without_a_job_hands_out_its_batches_and_says_so_once(monkeypatch, capsys):
    monkeypatch.setattr(messages, "_reported", set())
    batches = [[1, 2], [3]]
    for _epoch in range(2):
        assert list(count_batches(batches)) == batches
    assert capsys.readouterr().err.count("count_batches counts nothing") == 1
    assert len(count_batches(batches)) == 2


def test_trackers_that_are_not_there_are_a_line_each(capsys):
    log_to_mlflow("job-1", None, {}, None)
    log_to_wandb("job-1", None, {})
    first, second = capsys.readouterr().err.splitlines()
    assert "did not reach MLflow: ModuleNotFoundError" in first
    assert "no run of W&B is active for the figures of job-1" in second


@pytest.mark.parametrize(
    ("active", "named", "tagged", "expected"),
    [
        (None, None, ["run-a"], "run-a"),
        (None, None, ["run-a", "trial-1", "trial-2"], "run-a"),
        (None, None, ["run-0", "run-a", "trial-1"], "run-a"),
        (None, None, ["trial-1"], "trial-1"),  # the run around it is of no job
        (None, None, [], "run-b"),
        (None, "run-env", ["run-a"], "run-env"),
        ("run-now", "run-env", ["run-a"], "run-now"),
    ],
)
def test_mlflows_run_of_the_job_comes_before_the_last_of_the_process(
    monkeypatch, capsys, active, named, tagged, expected
):
    """Job A has ended, and run B was opened and closed since."""
    logged = []

    def run(name):
        tags = {"mlflow.parentRunId": "run-a"} if "trial" in str(name) else {}
        data = SimpleNamespace(tags=tags)
        return name and SimpleNamespace(info=SimpleNamespace(run_id=name), data=data)

    class Client:
        def search_experiments(self):
            return [SimpleNamespace(experiment_id="0")]

        def search_runs(self, experiments, query, order_by):
            assert query == "tags.`gramwatt.job_id` = 'job-a'"
            assert order_by == ["attributes.start_time ASC"]
            return [run(name) for name in tagged]

        def log_batch(self, run_id, metrics, tags):
            logged.append(run_id)

    modules = {
        "mlflow": {"active_run": lambda: run(active), "last_active_run": lambda: run("run-b")},
        "mlflow.entities": {"Metric": lambda *given: given, "RunTag": lambda *given: given},
        "mlflow.tracking": {"MlflowClient": Client},
    }
    for name, content in modules.items():
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(**content))
    monkeypatch.delenv("MLFLOW_RUN_ID", raising=False)
    if named:
        monkeypatch.setenv("MLFLOW_RUN_ID", named)
    log_to_mlflow("job-a", None, {"gramwatt/total_g": 1.0}, None)
    assert logged == [expected]
    several = "2 runs of MLflow belong to job-a" in capsys.readouterr().err
    assert several == ("run-0" in tagged)
