"""Names of jobs that were given none."""

import pytest

from gramwatt.collectors.cli.run import command_name


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python train.py --epochs 3", "train.py"),
        ("/usr/bin/python3.11 -u /home/a/b/train.py", "train.py"),
        ("python -m torch.distributed.run --nproc 2 train.py", "torch.distributed.run"),
        ("python -m pkg.train --lr 0.1", "pkg.train"),
        ("python -c print(1) x.py", "python"),
        ("python", "python"),
        ("torchrun --nproc-per-node 8 src/train.py --out result.py", "train.py"),
        ("accelerate launch --config_file c.yaml train.py", "train.py"),
        ("env A=1 python3 eval.py", "eval.py"),
        ("bash run.sh", "run.sh"),
        ("bash -c python train.py", "bash"),
        ("./train --data x.py", "train"),
        ("true", "true"),
        ("uv run train.py", "train.py"),
        ("conda run -n env python train.py", "train.py"),
        ("timeout 3600 python -m pkg.train", "pkg.train"),
        ("papermill report.ipynb out.ipynb -p x 1", "report.ipynb"),
        ("docker run --gpus all -m 4g image python train.py", "train.py"),
        ("docker compose up", "docker"),
    ],
)
def test_a_job_is_named_after_what_it_runs(command, name):
    assert command_name(command.split()) == name
