"""What the callback of a Trainer costs a training on the processor, and what `gramwatt run` does.

    .venv-frameworks/bin/python -m benchmarks.callback_cost [--training-s 30]

Compared are processor times of the same run, which other work on the machine changes little: that
of the callback's hooks, and that of the meter, with that of the training. Beside them stand whole
trainings without and with the callback in turn, in processes without and with `gramwatt run` in
turn: these ratios mean something on a quiet machine only. Exit code 1 above the limit.
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
"""What hooks and meter may take of the processor time of a training."""
BLOCK_S = 15.0
"""Processor time of one training [s]."""


def main() -> int:
    """Measure, print, and say whether the limit is kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--training-s", type=float, default=30.0, help="of each kind in all [s]")
    parser.add_argument("--inside", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside is not None:
        print(json.dumps(train_in_turn(options.inside)))
        return 0
    times: Counter[str] = Counter()
    steps = 0
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(max(1, round(options.training_s / BLOCK_S / 2))):
            for under, prefix in (
                ("", []),
                ("run ", [sys.executable, "-m", "gramwatt", "run", "--"]),
            ):
                line = [sys.executable, "-W", "ignore", "-m", "benchmarks.callback_cost"]
                environ = {**os.environ, "GRAMWATT_HOME": f"{folder}/home", "OMP_NUM_THREADS": "1"}
                done = subprocess.run(
                    [*prefix, *line, "--inside", str(steps)],
                    env=environ,
                    cwd=Path(__file__).parents[1],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    check=True,
                )
                found = json.loads(done.stdout.splitlines()[-1])
                steps = found.pop("steps")
                times.update({under + name: value for name, value in found.items()})
    hooks, meter = (
        times["callback " + what] / times["callback cpu"] for what in ("hooks", "meter")
    )
    print(f"{times['callback cpu']:.0f} s of training with the callback, {steps} steps each time")
    print(f"hooks of the callback   {hooks:.4%} of the training's processor time")
    print(f"meter, a process beside {meter:.4%}, {times['callback meter']:.2f} s")
    for name in ("callback", "run plain", "run callback"):
        cpu, wall = (times[f"{name} {what}"] / times[f"plain {what}"] for what in ("cpu", "wall"))
        print(f"{name:<14} {cpu:.4f} times the processor time, {wall:.4f} times the wall time")
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    missed = hooks + meter > LIMIT
    print(f"limit {LIMIT:.0%} {'missed' if missed else 'kept'} by hooks and meter")
    return 1 if missed else 0


def train_in_turn(steps: int) -> dict[str, float]:
    """Train without and with the callback twice; processor and wall time [s] of each.

    Of the callback also the processor time of its hooks, and of its meters where it has its own.
    """
    plain = Training(steps or 20)
    plain.time_s("warm", [])
    if not steps:  # so many steps as take a block
        step_s = plain.time_s("warm", [])["warm cpu"] / 20
        plain = Training(max(20, round(BLOCK_S / step_s)))
    from gramwatt.integrations.transformers import GramwattCallback

    times: Counter[str] = Counter({"steps": plain.steps})
    for name in ("plain", "callback", "callback", "plain"):
        callback = GramwattCallback(project="cost")
        spent = Counter[str]()
        for hook in filter(lambda text: text.startswith("on_"), dir(callback)):
            setattr(callback, hook, timed(getattr(callback, hook), spent))
        times.update(plain.time_s(name, [callback] if name == "callback" else []))
        if name == "callback":
            document = callback.job.result
            meter_s = document["method"]["meter_cpu_s"] or 0.0 if document else 0.0
            times.update({"callback hooks": spent["s"], "callback meter": meter_s})
    return dict(times)


def timed(hook: Callable[..., Any], spent: Counter[str]) -> Callable[..., Any]:
    """A hook that adds the processor time it takes [s]."""

    def call(*args: Any, **kwargs: Any) -> Any:
        before = time.thread_time()
        try:
            return hook(*args, **kwargs)
        finally:
            spent["s"] += time.thread_time() - before

    return call


class Training:
    """A small language model on the processor, some 20 ms a step."""

    def __init__(self, steps: int) -> None:
        import torch

        torch.set_num_threads(1)
        self.steps = steps
        self._data = [
            {"input_ids": torch.arange(64), "labels": torch.arange(64)} for _ in range(800)
        ]

    def time_s(self, name: str, callbacks: list[object]) -> dict[str, float]:
        """Train once; processor and wall time [s]."""
        from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

        shape = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2}
        model = LlamaForCausalLM(LlamaConfig(**shape, num_attention_heads=4, vocab_size=200))
        with tempfile.TemporaryDirectory() as folder:
            arguments = TrainingArguments(
                folder,
                max_steps=self.steps,
                per_device_train_batch_size=8,
                report_to="none",
                use_cpu=True,
                save_strategy="no",
                disable_tqdm=True,
                include_num_input_tokens_seen="all",
            )
            trainer = Trainer(model, arguments, train_dataset=self._data, callbacks=callbacks)
            cpu_s, wall_s = time.process_time(), time.perf_counter()
            trainer.train()
            cpu_s, wall_s = time.process_time() - cpu_s, time.perf_counter() - wall_s
        return {f"{name} cpu": cpu_s, f"{name} wall": wall_s}


if __name__ == "__main__":
    sys.exit(main())
