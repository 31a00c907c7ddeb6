"""What the callback of a Trainer costs a training on the processor, and what `gramwatt run` does.

    .venv-frameworks/bin/python -m benchmarks.callback_cost [--training-s 30]

Compared are processor times of the same run, which other work on the machine changes little: the
callback's hooks with the training, and the meter with all processors during it. Beside them stand
whole trainings without and with the callback, in processes without and with `gramwatt run`: these
ratios mean something on a quiet machine only. Exit code 1 above the limit.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

LIMIT = 0.01
"""What the hooks may take of a training; benchmarks/meter_cost has the meter, a process beside."""
SETTINGS = {"OMP_NUM_THREADS": "1", "GRAMWATT_HOST_SOURCE": "model"}
"""One processor for the training, and a host that is not read."""


def main() -> int:
    """Measure, print, and say whether the limit is kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--training-s", type=float, default=30.0, help="length of each [s]")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        print(json.dumps(train_in_turn(options.training_s)))
        return 0
    times = dict[str, float]()
    with tempfile.TemporaryDirectory() as folder:
        for under, prefix in ("", []), ("run ", [sys.executable, "-m", "gramwatt", "run", "--"]):
            line = [sys.executable, "-W", "ignore", "-m", "benchmarks.callback_cost", "--inside"]
            done = subprocess.run(
                [*prefix, *line, "--training-s", str(options.training_s)],
                env={**os.environ, **SETTINGS, "GRAMWATT_HOME": f"{folder}/home"},
                cwd=Path(__file__).parents[1],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                check=True,
            )
            found = json.loads(done.stdout.splitlines()[-1])
            times |= {under + name: value for name, value in found.items()}
    cores, training_s = os.cpu_count() or 1, times["callback cpu"]
    hooks, meter = (
        times["callback hooks"] / training_s,
        times["callback meter"] / training_s / cores,
    )
    print(f"{training_s:.0f} s of training with the callback, {times['steps']:.0f} steps")
    print(f"hooks of the callback   {hooks:.3%} of the training")
    print(f"meter, a process beside {meter:.3%} of {cores} processors during it")
    for name in ("callback", "run plain", "run callback"):
        each = times["run steps" if name.startswith("run") else "steps"] / times["steps"]
        cpu, wall = (
            times[f"{name} {what}"] / times[f"plain {what}"] / each for what in ("cpu", "wall")
        )
        print(f"{name:<14} {cpu:.4f} times the processor time, {wall:.4f} times the wall time")
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    missed = hooks > LIMIT
    print(f"limit {LIMIT:.0%} {'missed' if missed else 'kept'} by the hooks")
    return 1 if missed else 0


def train_in_turn(length_s: float) -> dict[str, float]:
    """Train without and with the callback; processor and wall time of each [s], and the steps.

    Of the callback also the processor time of its hooks, and of its meter where it has its own.
    """
    from gramwatt.integrations.transformers import GramwattCallback

    train("warm", 20, [])
    steps = max(20, round(20 * length_s / train("warm", 20, [])["warm cpu"]))
    callback, spent = GramwattCallback(project="cost"), Counter[str]()
    for hook in filter(lambda text: text.startswith("on_"), dir(callback)):
        setattr(callback, hook, timed(getattr(callback, hook), spent))
    times = train("plain", steps, []) | train("callback", steps, [callback])
    document = callback.job.result if callback.job else None
    meter_s = document["method"]["meter_cpu_s"] or 0.0 if document else 0.0
    return {**times, "steps": steps, "callback hooks": spent["s"], "callback meter": meter_s}


def timed(hook: Callable[..., Any], spent: Counter[str]) -> Callable[..., Any]:
    """A hook that adds the processor time it takes [s]."""

    def call(*args: Any, **kwargs: Any) -> Any:
        before = time.thread_time()
        try:
            return hook(*args, **kwargs)
        finally:
            spent["s"] += time.thread_time() - before

    return call


def train(name: str, steps: int, callbacks: list[object]) -> dict[str, float]:
    """Train a small language model, some 20 ms a step; processor and wall time [s]."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

    torch.set_num_threads(1)
    data = [{"input_ids": torch.arange(64), "labels": torch.arange(64)} for _ in range(800)]
    shape = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2}
    model = LlamaForCausalLM(LlamaConfig(**shape, num_attention_heads=4, vocab_size=200))
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            max_steps=steps,
            per_device_train_batch_size=8,
            report_to="none",
            use_cpu=True,
            save_strategy="no",
            disable_tqdm=True,
            include_num_input_tokens_seen="all",
        )
        trainer = Trainer(model, arguments, train_dataset=data, callbacks=callbacks)
        cpu_s, wall_s = time.process_time(), time.perf_counter()
        trainer.train()
        cpu_s, wall_s = time.process_time() - cpu_s, time.perf_counter() - wall_s
    return {f"{name} cpu": cpu_s, f"{name} wall": wall_s}


if __name__ == "__main__":
    sys.exit(main())
