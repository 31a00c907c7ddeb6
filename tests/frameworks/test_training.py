"""The real frameworks on CPU, by the lines of docs/integrations.md."""

from __future__ import annotations

import sys

import pytest

from tests.frameworks.conftest import counts, windows

LLAMA = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
from gramwatt.integrations.transformers import GramwattCallback
model = LlamaForCausalLM(LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=1,
    num_attention_heads=2, vocab_size=100))
data = [{"input_ids": torch.arange(16), "labels": torch.arange(16)} for _ in range(37)]
common = dict(report_to="none", use_cpu=True, save_strategy="no", disable_tqdm=True)
"""


def test_a_trainer_counts_samples_steps_and_tokens(run):
    (found,) = run(
        LLAMA
        + """
args = TrainingArguments("out", num_train_epochs=2, per_device_train_batch_size=4, logging_steps=3,
    include_num_input_tokens_seen="all", eval_strategy="epoch", **common)
callback = GramwattCallback(project="nlp")
Trainer(model, args, train_dataset=data, eval_dataset=data[:8], callbacks=[callback]).train()
show(callback.job)
"""
    )
    assert found["project"] == "nlp"
    assert (found["state"], found["kind"]) == ("completed", "training")
    assert counts(found) == {"sample": 74, "step": 20, "token": 74 * 16}
    named = [name for name, _ in windows(found)]
    assert named == ["epoch-0", "evaluation", "epoch-1", "evaluation"]
    assert [done["sample"] for name, done in windows(found) if name.startswith("epoch")] == [37, 37]
    assert "integration-failed" not in {notice["code"] for notice in found["notices"]}


def test_a_trainer_that_raises_ends_its_job_as_failed_and_the_next_is_another(run):
    first, second = run(
        LLAMA
        + """
args = TrainingArguments("out", num_train_epochs=1, per_device_train_batch_size=4, **common)
callback = GramwattCallback()
trainer = Trainer(model, args, train_dataset=data, callbacks=[callback])
step = trainer.training_step
trainer.training_step = lambda *a, **k: 1 / 0
try:
    trainer.train()
except ZeroDivisionError:
    show(callback.job)
trainer.training_step = step
trainer.train()
show(callback.job)
"""
    )
    assert first["state"] == "failed"
    assert (second["state"], counts(second)["sample"]) == ("completed", 37)
    assert first["job_id"] != second["job_id"]


def test_two_ranks_are_one_job_counted_once(run):
    command = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    script = (
        LLAMA
        + """
import os
args = TrainingArguments("out", num_train_epochs=1, per_device_train_batch_size=2,
    include_num_input_tokens_seen="all", ddp_backend="gloo", **common)
callback = GramwattCallback()
Trainer(model, args, train_dataset=data[:32], callbacks=[callback]).train()
if os.environ["RANK"] == "0":
    import time
    time.sleep(3)
    show(callback.job)
"""
    )
    (found,) = run(script, *command)
    assert counts(found) == {"sample": 32, "step": 8, "token": 32 * 16}
    assert found["state"] == "completed"


def test_a_callback_that_fails_is_a_notice_and_the_training_goes_on(run):
    (found,) = run(
        LLAMA
        + """
args = TrainingArguments("out", num_train_epochs=1, per_device_train_batch_size=4, **common)
callback = GramwattCallback()
callback._count_tokens = lambda *_: 1 / 0
Trainer(model, args, train_dataset=data, callbacks=[callback]).train()
callback._run.end()
show(callback.job)
"""
    )
    notices = {notice["code"]: notice["message"] for notice in found["notices"]}
    assert "ZeroDivisionError" in notices["integration-failed"]
    assert counts(found)["sample"] == 37


def test_trl_counts_its_own_tokens(run):
    (found,) = run("""
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer
from gramwatt.integrations.transformers import GramwattCallback
known = Tokenizer(models.WordLevel({"[PAD]": 0, "[EOS]": 1, "a": 2, "b": 3, "[UNK]": 4},
    unk_token="[UNK]"))
known.pre_tokenizer = pre_tokenizers.Whitespace()
words = PreTrainedTokenizerFast(tokenizer_object=known, pad_token="[PAD]", eos_token="[EOS]",
    unk_token="[UNK]")
model = LlamaForCausalLM(LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=1,
    num_attention_heads=2, vocab_size=100, eos_token_id=1, pad_token_id=0))
data = Dataset.from_dict({"text": ["a b a b"] * 13})
callback = GramwattCallback()
args = SFTConfig("out", num_train_epochs=2, per_device_train_batch_size=4, report_to="none",
    logging_steps=3, use_cpu=True, bf16=False, save_strategy="no", disable_tqdm=True, max_length=32)
SFTTrainer(model=model, args=args, train_dataset=data, processing_class=words,
    callbacks=[callback]).train()
show(callback.job)
""")
    assert counts(found) == {"sample": 26, "step": 8, "token": 26 * 5}  # four words and the end


LIGHTNING = """
import lightning as L, torch
from torch.utils.data import DataLoader, TensorDataset
class Model(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, _):
        return ((self.layer(batch[0]) - batch[1]) ** 2).mean()
    def validation_step(self, batch, _): pass
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)
loader = DataLoader(TensorDataset(torch.rand(37, 4), torch.rand(37, 1)), batch_size=8)
common = dict(accelerator="cpu", logger=False, enable_checkpointing=False,
    enable_progress_bar=False, max_epochs=2)
"""


def test_lightning_counts_batches_and_skips_the_sanity_check(run):
    done, failed = run(
        LIGHTNING
        + """
from gramwatt.integrations.lightning import GramwattCallback
callback = GramwattCallback(project="vision")
L.Trainer(callbacks=[callback], **common).fit(Model(), loader, loader)
show(callback.job)
class Broken(Model):
    def training_step(self, batch, _):
        raise KeyError("broken")
try:
    L.Trainer(callbacks=[callback], **common).fit(Broken(), loader)
except KeyError:
    show(callback.job)
"""
    )
    assert counts(done) == {"sample": 74, "step": 10}
    assert [name for name, _ in windows(done)] == [
        *("epoch-0", "epoch-0/validation", "epoch-1", "epoch-1/validation")
    ]
    assert (done["state"], failed["state"]) == ("completed", "failed")


@pytest.mark.parametrize(("asked", "samples"), [("1", 74), ("", None)])
def test_lightning_finds_the_callback_by_its_entry_point_when_it_is_asked(run, asked, samples):
    script = """
trainer = L.Trainer(**common)
trainer.fit(Model(), loader)
for callback in trainer.callbacks:
    if type(callback).__name__ == "GramwattCallback":
        show(callback.job)
import sys
assert bool(%r) or not any(name.startswith("gramwatt.collectors.") for name in sys.modules)
"""
    found = run(LIGHTNING + script % asked, GRAMWATT_LIGHTNING=asked)
    assert [counts(document)["sample"] for document in found] == ([samples] if samples else [])


def test_keras_counts_epochs(run):
    guessed, told = run("""
import keras, numpy
from gramwatt.integrations.keras import GramwattCallback
for options in ({"batch_size": 8}, {"samples": 37}):
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    callback = GramwattCallback(**options)
    x, y = numpy.ones((37, 4)), numpy.ones((37, 1))
    model.fit(x, y, epochs=2, batch_size=8, verbose=0, callbacks=[callback])
    show(callback.job)
""")
    assert counts(guessed) == {"sample": 80, "step": 10}
    assert "count-derived" in {notice["code"] for notice in guessed["notices"]}
    assert counts(told) == {"sample": 74, "step": 10}
    assert "count-derived" not in {notice["code"] for notice in told["notices"]}


def test_ultralytics_counts_images(run):
    (found,) = run("""
import cv2, numpy, pathlib
from ultralytics import YOLO
from gramwatt.integrations.ultralytics import add_callbacks
for number in range(5):
    for kind in ("images", "labels"):
        pathlib.Path(f"data/{kind}").mkdir(parents=True, exist_ok=True)
    image = numpy.full((64, 64, 3), 40 * number, dtype=numpy.uint8)
    cv2.imwrite(f"data/images/{number}.jpg", image)
    pathlib.Path(f"data/labels/{number}.txt").write_text("0 .5 .5 .3 .3\\n")
folder = pathlib.Path("data").absolute()
text = f"path: {folder}\\ntrain: images\\nval: images\\nnames: {{0: thing}}\\n"
pathlib.Path("data.yaml").write_text(text)
model = YOLO("yolo11n.yaml")
add_callbacks(model, project="vision")
model.train(data="data.yaml", epochs=2, imgsz=64, batch=2, device="cpu", workers=0, plots=False,
    verbose=False, val=False)
show(model.trainer._gramwatt_run.job)
""")
    assert (counts(found), found["state"]) == ({"image": 10}, "completed")
    assert [name for name, _ in windows(found)] == ["epoch-0", "epoch-1"]


def test_accelerate_measures_and_the_loop_counts(run):
    (found,) = run("""
from accelerate import Accelerator
from gramwatt.integrations.accelerate import GramwattTracker
accelerator = Accelerator(cpu=True, log_with=GramwattTracker(project="nlp"))
accelerator.init_trackers("run", config={"rate": 1})
job = accelerator.get_tracker("gramwatt", unwrap=True)
job.count(sample=64)
accelerator.log({"loss": 1.0}, step=1)
accelerator.end_training()
show(job)
""")
    assert (counts(found), found["project"]) == ({"sample": 64}, "nlp")


def test_the_loader_of_a_plain_loop_counts(run):
    (found,) = run("""
import torch
from torch.utils.data import DataLoader, TensorDataset
from gramwatt import track
from gramwatt.integrations.pytorch import count_batches
loader = DataLoader(TensorDataset(torch.rand(37, 4), torch.rand(37, 1)), batch_size=8)
with track() as job:
    counted = count_batches(loader, unit="image")
    assert len(counted) == 5 and counted.batch_size == 8
    for _epoch in range(2):
        for x, y in counted:
            pass
show(job)
""")
    assert counts(found) == {"image": 74}


def test_workers_of_ray_train_are_one_job(run):
    (found,) = run(
        """
import ray
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from gramwatt import track
def train_loop(config):
    from gramwatt import track
    with track() as job:
        job.count(sample=40)
ray.init(num_cpus=2, include_dashboard=False)
with track(project="nlp") as job:
    named = RunConfig(worker_runtime_env={"env_vars": {"GRAMWATT_JOB_ID": job.id}})
    TorchTrainer(train_loop, scaling_config=ScalingConfig(num_workers=2), run_config=named).fit()
ray.shutdown()
show(job)
""",
        RAY_USAGE_STATS_ENABLED="0",
    )
    assert (counts(found), found["project"], found["state"]) == ({"sample": 80}, "nlp", "completed")


def test_sentence_transformers_count_as_the_trainer_does(run):
    (found,) = run("""
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments)
from sentence_transformers.losses import CoSENTLoss
from sentence_transformers.models import Pooling, Transformer
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast
from gramwatt.integrations.transformers import GramwattCallback
known = Tokenizer(models.WordLevel({"[PAD]": 0, "a": 1, "b": 2, "[UNK]": 3}, unk_token="[UNK]"))
known.pre_tokenizer = pre_tokenizers.Whitespace()
words = PreTrainedTokenizerFast(tokenizer_object=known, pad_token="[PAD]", unk_token="[UNK]")
words.save_pretrained("tiny")
BertModel(BertConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=1,
    num_attention_heads=2, vocab_size=100)).save_pretrained("tiny")
model = SentenceTransformer(modules=[Transformer("tiny"), Pooling(32)], device="cpu")
data = Dataset.from_dict({"one": ["a b"] * 13, "two": ["b a"] * 13, "label": [1.0] * 13})
callback = GramwattCallback()
args = SentenceTransformerTrainingArguments("out", num_train_epochs=2, report_to="none",
    per_device_train_batch_size=4, use_cpu=True, save_strategy="no", disable_tqdm=True)
SentenceTransformerTrainer(model=model, args=args, train_dataset=data, loss=CoSENTLoss(model),
    callbacks=[callback]).train()
show(callback.job)
""")
    assert (counts(found), found["state"]) == ({"sample": 26, "step": 8}, "completed")


def test_two_ranks_of_lightning_are_one_job(run):
    (found,) = run(
        LIGHTNING
        + """
from gramwatt.integrations.lightning import GramwattCallback
callback = GramwattCallback()
trainer = L.Trainer(callbacks=[callback], devices=2, strategy="ddp", **common)
trainer.fit(Model(), loader)
if trainer.is_global_zero:
    import time
    time.sleep(3)
    show(callback.job)
"""
    )
    # 19 of 37 samples for each rank, as the sampler repeats one; a step is one of both.
    assert (counts(found), found["state"]) == ({"sample": 76, "step": 6}, "completed")


def test_forked_workers_of_a_loader_count_and_the_loader_counts_once(run):
    (found,) = run("""
import torch
from torch.utils.data import DataLoader, Dataset
from gramwatt import track
from gramwatt.integrations.pytorch import count_batches
class Pictures(Dataset):
    def __len__(self):
        return 37
    def __getitem__(self, index):
        with track() as job:
            job.count(decoded=1)
        return torch.zeros(4)
with track() as job:
    for batch in count_batches(DataLoader(Pictures(), batch_size=8, num_workers=2), unit="image"):
        pass
show(job)
""")
    assert counts(found) == {"image": 37, "decoded": 37}
