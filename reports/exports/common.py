"""What the exports share: their error, names as manifests spell them, parts of a document, and YAML
that readers of YAML 1.1 and 1.2 take alike.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

import yaml

from gramwatt.sci.base.document import (
    DeviceDoc,
    JobDoc,
    SciDoc,
)
from gramwatt.sci.base.errors import GramwattError
from gramwatt.sci.base.notices import CODES

CATEGORIES = {
    "training": "ml-training",
    "fine-tuning": "ml-training",
    "inference": "ml-inference",
    "data-prep": "data-processing",
}
"""Category in the manifest by kind of job; any other kind is `other`."""
Data = Mapping[str, "Data"] | Sequence["Data"] | str | float | int | bool | None

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_/-]+")
"""A text that needs no quotes, unless it is a word such as `yes` or `null`. Others may be numbers
or dates to some reader: `1e3` is a text in YAML 1.1 and a number in 1.2."""
_NO_FOLD = 2**31 - 1
"""[characters] Long texts stay on one line."""


class ExportError(GramwattError, ValueError):
    """The job cannot be written in this format; the message names what is missing."""

    code = "not-exportable"


def category(document: JobDoc) -> str:
    """Return the category of the manifest for the job's kind."""
    return CATEGORIES.get(document.kind, "other")


def kebab(text: str) -> str:
    """Return the text in lower-case letters, digits and single hyphens, 3 to 100 characters
    long.
    """
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:90].strip("-")
    return name if len(name) >= 3 else f"job-{name or '0'}"


def scored_unit(document: JobDoc) -> SciDoc:
    """Return the first functional unit: the declared one, or the job itself."""
    return document.sci[0]


def require_terms(document: JobDoc) -> None:
    """Raise ExportError if energy or embodied carbon is unknown."""
    unknown = [
        name
        for name, figure in (
            ("energy", document.energy_kwh),
            ("embodied carbon", document.embodied_g),
        )
        if figure is None
    ]
    if unknown:
        raise ExportError(
            f"job {document.job_id!r} has no score to export: {' and '.join(unknown)} not known"
        )


def hardware_used(devices: Iterable[DeviceDoc]) -> str:
    """Return the accelerators as `8 x NVIDIA H100`, or the CPUs of a job without accelerators."""
    accelerators = [d for d in devices if d.device_class in ("gpu", "accelerator", "module")]
    chosen = accelerators or [d for d in devices if d.device_class == "cpu"]
    names = dict.fromkeys(device.name for device in chosen)
    counts = {name: sum(d.name == name for d in chosen) for name in names}
    return ", ".join(f"{count} x {name}" for name, count in counts.items())


def caution(document: JobDoc) -> str:
    """Return a warning for readings of a synthetic meter, empty for readings of
    hardware.
    """
    synthetic = any(notice.code == "meter-synthetic" for notice in document.notices)
    return CODES["meter-synthetic"] if synthetic else ""


class _Dumper(yaml.CSafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        """Write an object that occurs twice in full both times: not every reader knows anchors."""
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = None if _WORD.fullmatch(text) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


def _number(dumper: _Dumper, number: float) -> yaml.ScalarNode:
    if not math.isfinite(number):
        raise ValueError(f"not a finite number: {number}")
    return dumper.represent_float(number)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(float, _number)


def to_yaml(data: Mapping[str, Data]) -> str:
    """Return the mapping as a YAML document; raises ValueError for NaN and infinity."""
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_NO_FOLD)
    return text
