"""The name of a job that was given none: what its command runs, not what runs it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from os.path import basename

LAUNCHERS = frozenset(
    {
        *("accelerate", "bash", "deepspeed", "env", "mpiexec", "mpirun", "nice", "nohup"),
        *("numactl", "pipenv", "poetry", "rye", "sh", "srun", "stdbuf", "time", "torchrun"),
        *("uv", "zsh"),
    }
)
INTERPRETER = re.compile(r"(python|pypy)[\d.]*")
SCRIPT = re.compile(r".+\.(py|sh|ipynb|R|jl)")
MODULE = re.compile(r"[A-Za-z_][\w.]*")


def command_name(command: Sequence[str]) -> str:
    """`train.py` for `python -u train.py --lr 1`, `pkg.train` for `python -m pkg.train`.

    Behind a launcher or interpreter the first script is the name, or the module after -m; else it
    is the command itself.
    """
    first = basename(command[0])
    if first not in LAUNCHERS and not INTERPRETER.fullmatch(first):
        return first
    for before, word in zip(command, command[1:], strict=False):
        if before == "-c":
            break
        if before == "-m" and MODULE.fullmatch(word):
            return word
        if SCRIPT.fullmatch(word) and not word.startswith("-"):
            return basename(word)
    return first
