"""The C stand-in for libnvidia-ml: how it is built, and what a process must be told to load it."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
from pathlib import Path

from waves import Sensor, Wave

SOURCE = Path(__file__).with_name("standin.c")


def build(folder: Path) -> Path:
    """Compile the library into `folder`; raises FileNotFoundError without a C compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise FileNotFoundError("no C compiler (gcc or cc) is installed")
    library = folder / "libnvidia-ml.so.1"
    options = ["-O2", "-std=c11", "-Wall", "-Wextra", "-shared", "-fPIC"]
    subprocess.run([compiler, *options, str(SOURCE), "-o", str(library), "-lm"], check=True)
    shutil.copy(library, folder / "libnvidia-ml.so")
    # codecarbon asks for this program before it looks for the library.
    program = folder / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'Stand-in GPU'\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return folder


def environment(
    folder: Path, wave: Wave, sensor: Sensor, home: Path, gpus: int = 1, counter: bool = True
) -> dict[str, str]:
    """Variables under which a process finds GPUs with this wave, and none of its user's."""
    pieces = home / "wave.txt"
    pieces.write_text("".join(f"{span} {low} {high}\n" for span, low, high in wave.pieces))
    kept = {name: os.environ[name] for name in ("LANG", "LC_ALL") if name in os.environ}
    return {
        **kept,
        "GRAMWATT_HOME": str(home / "home"),
        "GRAMWATT_HOST_SOURCE": "model",
        "HOME": str(home),
        "TMPDIR": str(home),
        "PATH": f"{folder}:/usr/local/bin:/usr/bin:/bin",
        "LD_LIBRARY_PATH": str(folder),
        "STANDIN_WAVE": str(pieces),
        "STANDIN_PERIOD_S": str(sensor.update_period_s),
        "STANDIN_POWER": sensor.power,
        "STANDIN_GPUS": str(gpus),
        # Boards of their own: jobs that run at the same time are not to share one.
        "STANDIN_UUID": hashlib.sha256(bytes(home)).hexdigest()[:8],
        "STANDIN_COUNTER": "yes" if counter else "none",
    }
