"""`gramwatt run` around the real server of llama.cpp: its answers, its counters, and the score."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import textwrap

import pytest

from tests.collectors.doubles.processes import with_gpus
from tests.collectors.serving.llama_server import write_model

LOAD = """
import json, subprocess, sys, time, urllib.request
port, model = sys.argv[1:]
serve = [sys.executable, "-m", "tests.collectors.serving.llama_server", port, model]
server = subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
server.stdout.readline()
found = []
for number in range(6):
    body = {"prompt": "abc" * (5 + number), "max_tokens": 12 + number}
    asked = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    found.append(json.load(urllib.request.urlopen(asked, timeout=60))["usage"])
time.sleep(5.5)  # the next reading
server.kill()
server.wait()
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("llama")
    write_model(folder / "model.gguf")
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    wave = {"type": "constant", "power_w": 250}
    (folder / "load.py").write_text(textwrap.dedent(LOAD))
    environ = {
        **os.environ,
        "GRAMWATT_HOME": str(folder / "home"),
        **with_gpus(folder / "nvml.json", {}, {"waveform": wave}),
        "GRAMWATT_HOST_SOURCE": "model",
        "XDG_CONFIG_HOME": str(folder),
    }
    run = [sys.executable, "-m", "gramwatt", "run", "--zone", "FR", "--json-summary"]
    served = ["--count-from", f"http://127.0.0.1:{port}=llamacpp"]
    command = [sys.executable, str(folder / "load.py"), str(port), str(folder / "model.gguf")]
    line = [*run, str(folder / "job.json"), *served, "--", *command]
    done = subprocess.run(line, env=environ, cwd=folder, capture_output=True, timeout=240)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout), json.loads((folder / "job.json").read_text())


def test_the_tokens_of_the_answers_are_those_that_were_counted(served):
    answers, document = served
    total = document["service"]["total"]
    generated = sum(usage["completion_tokens"] for usage in answers)
    cached = sum(usage["prompt_tokens_details"]["cached_tokens"] for usage in answers)
    computed = sum(usage["prompt_tokens"] for usage in answers) - cached
    by_part = {part["part"]: part["tokens"] for part in total["parts"]}
    assert generated > 60
    assert by_part == {"prefill": computed, "decode": generated, "idle": 0}
    assert (total["counts"], total["cached_tokens"]) == ({"token": computed + generated}, cached)
    assert [(row["unit"], row["count"]) for row in document["sci"]] == [
        ("token", computed + generated)
    ]


def test_prefill_decode_and_idle_add_up_to_the_devices(served):
    _, document = served
    parts_j = sum(part["energy_j"]["value"] for part in document["service"]["total"]["parts"])
    devices_j = sum(
        device["energy_j"]["value"] for device in document["devices"] if device["energy_j"]
    )
    (board,) = [device for device in document["devices"] if device["class"] == "gpu"]
    assert parts_j == pytest.approx(devices_j, rel=1e-3)
    assert board["energy_j"]["value"] == pytest.approx(250 * document["duration_s"], rel=0.01)


def test_the_job_is_marked_as_a_service(served):
    _, document = served
    assert (document["kind"], document["tags"]["serving"]) == ("inference", "llamacpp")
