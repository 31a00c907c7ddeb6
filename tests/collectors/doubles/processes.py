"""What the processes of a test are given so that their meters read a synthetic NVML."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
STANDIN = Path(__file__).parent / "standin"


def with_gpus(file: Path, environ: Mapping[str, str], *gpus: Mapping[str, Any]) -> dict[str, str]:
    """Return variables under which a process finds these GPUs (`synthetic.py`), written to `file`.

    `environ` is what the process has otherwise; without `gpus` the file is taken as it is.
    """
    if gpus:
        file.write_text(json.dumps({"gpus": gpus}))
    before = [environ["PYTHONPATH"]] if environ.get("PYTHONPATH") else []
    path = os.pathsep.join([*before, str(STANDIN), str(ROOT)])
    return {"STANDIN_NVML": str(file), "PYTHONPATH": path}
