"""MLflow and W&B with their own files, read back."""

from __future__ import annotations

import socket
import sys

MLFLOW = """
import mlflow
from gramwatt import track
mlflow.set_tracking_uri("sqlite:///runs.db")
client = mlflow.tracking.MlflowClient()
"""


def test_a_run_of_mlflow_has_the_job_as_a_tag_and_its_figures(run):
    (found,) = run(
        MLFLOW
        + """
with track(unit="image") as job:
    with mlflow.start_run() as run:
        job.count(64)
show(job)
kept = client.get_run(run.info.run_id).data
assert kept.tags["gramwatt.job_id"] == job.id, kept.tags
assert kept.metrics == job.metrics(), kept.metrics
query = f"tags.`gramwatt.job_id` = '{job.id}'"
(by_tag,) = client.search_runs(["0"], query)
assert by_tag.info.run_id == run.info.run_id
""",
        GRAMWATT_MLFLOW="1",
    )
    assert found["state"] == "completed"


def test_nothing_goes_to_mlflow_that_is_not_asked_for_and_by_hand_it_does(run):
    run(
        MLFLOW
        + """
with track(unit="image") as job:
    with mlflow.start_run() as run:
        job.count(64)
kept = client.get_run(run.info.run_id).data
assert "gramwatt.job_id" not in kept.tags and not kept.metrics
job.log_to_mlflow(run.info.run_id)
kept = client.get_run(run.info.run_id).data
assert kept.metrics["gramwatt/count_image"] == 64
assert kept.tags["gramwatt.job_id"] == job.id
show(job)
"""
    )


def test_a_server_of_mlflow_that_is_down_is_one_line(run):
    (found,) = run(
        """
import os
os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] = "0"
import mlflow
from gramwatt import track
mlflow.set_tracking_uri("http://127.0.0.1:9")
with track() as job:
    job.count(1)
job.log_to_mlflow("0123456789abcdef0123456789abcdef")
show(job)
""",
        GRAMWATT_MLFLOW="1",
    )
    assert found["state"] == "completed"


def test_the_summary_of_a_run_of_wandb_has_the_figures(run, tmp_path):
    (found,) = run("""
import wandb
from gramwatt import track
run = wandb.init(project="vision", mode="offline")
with track(unit="image") as job:
    job.count(64)
job.log_to_wandb()
assert run.summary["gramwatt/count_image"] == 64
assert run.summary["gramwatt.job_id"] == job.id
assert run.summary["gramwatt/total_g_low"] <= run.summary["gramwatt/total_g"]
run.finish()
show(job)
""")
    (kept,) = (tmp_path / "wandb").glob("offline-run-*/run-*.wandb")
    assert found["job_id"].encode() in kept.read_bytes()


def test_a_model_card_gets_grams_and_keeps_the_rest(run):
    run("""
import pathlib, re, subprocess, sys
from huggingface_hub import ModelCard
from gramwatt import track
with track(kind="fine-tuning") as job:
    job.count(1)
card = pathlib.Path("README.md")
card.write_text("---\\nlicense: mit\\nmine: kept\\n---\\n# A model\\nText.\\n")
job.result  # puts the job into the store
line = [sys.executable, "-m", "gramwatt", "report", "card", job.id, "--into", "README.md"]
done = subprocess.run(line, capture_output=True, text=True)
assert done.returncode == 0, done.stderr
read = ModelCard.load(card)
found = read.data.to_dict()
assert (found["license"], found["mine"]) == ("mit", "kept")
kept = found["co2_eq_emissions"]
assert abs(kept["emissions"] - job.result["total_g"]["value"]) < 1e-6
assert kept["training_type"] == "fine-tuning" and kept["geographical_location"] == "FR"
low, high = map(float, re.search(r", ([^ ]+) to ([^ ]+) g\\.", kept["source"]).groups())
assert low <= kept["emissions"] <= high
assert read.content.endswith("# A model\\nText.\\n")
line[-1] = "absent.md"
done = subprocess.run(line, capture_output=True, text=True)
assert done.returncode == 0, done.stderr
assert pathlib.Path("absent.md").read_text().startswith("---\\nco2_eq_emissions:")
show(job)
""")


def test_a_run_of_wandb_polls_the_meter_and_keeps_what_its_user_polls(run, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as found:
        address = f"127.0.0.1:{found.getsockname()[1]}"
    metrics = ("-m", "gramwatt", "run", "--metrics", f"{address},wandb", "--", sys.executable)
    run(
        """
import json, os, time, wandb
run = wandb.init(project="vision")
assert set(json.loads(os.environ["WANDB_X_STATS_OPEN_METRICS_ENDPOINTS"])) == {"mine", "gramwatt"}
time.sleep(14)  # the meter writes its journal every 10 s
run.finish()
""",
        *(sys.executable, *metrics),
        WANDB_X_STATS_OPEN_METRICS_ENDPOINTS='{"mine": "http://127.0.0.1:9/metrics"}',
        WANDB_X_STATS_SAMPLING_INTERVAL="1",
    )
    (kept,) = (tmp_path / "wandb").glob("offline-run-*/run-*.wandb")
    for name in ("hw_energy_joules_total", "hw_power_watts", "gramwatt_co2e_grams_per_hour"):
        assert f"openmetrics.gramwatt.{name}".encode() in kept.read_bytes()


def test_tensorboard_has_the_figures_as_scalars(run):
    run("""
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter
from gramwatt import track
with track(unit="image") as job:
    job.count(64)
writer = SummaryWriter("logs")
for name, value in job.metrics().items():
    writer.add_scalar(name, value)
writer.close()
kept = EventAccumulator("logs")
kept.Reload()
assert kept.Scalars("gramwatt/count_image")[0].value == 64
assert set(kept.Tags()["scalars"]) == set(job.metrics())
""")
