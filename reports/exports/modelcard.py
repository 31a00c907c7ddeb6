"""The `co2_eq_emissions` block of a Hugging Face model card, in grams as the Hub reads it.

The block holds only keys that the Hub defines. In an existing card it replaces the old block; the
rest of the card stays unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable

from gramwatt.reports.exports.common import Data, ExportError, caution, to_yaml
from gramwatt.sci.figures.document import DeviceDoc, JobDoc

KEY = "co2_eq_emissions"
_FENCE = "---"


def fields(document: JobDoc) -> dict[str, Data]:
    """Return what the block holds; raises ExportError if the job's total is unknown."""
    total = document.total_g
    if total is None:
        raise ExportError(f"job {document.job_id!r} has no total to put into a model card")
    source = (
        f"gramwatt, SCI (ISO/IEC 21031): operational and embodied emissions of job "
        f"{document.job_id}, {total.low:.4g} to {total.high:.4g} g"
    )
    values: dict[str, Data] = {
        # Six significant digits, more than any range here justifies.
        "emissions": float(f"{total.value:.6g}"),
        "source": " ".join(filter(None, (f"{source}.", caution(document)))),
    }
    optional = {
        # The Hub's other type, pre-training, says more than that a job was a training.
        "training_type": "fine-tuning" if document.kind == "fine-tuning" else None,
        "geographical_location": document.region or document.zone,
        "hardware_used": _hardware_used(document.devices),
    }
    return values | {key: value for key, value in optional.items() if value}


def block(document: JobDoc) -> str:
    """Return the block as YAML; raises ExportError if the job's total is unknown."""
    return to_yaml({KEY: fields(document)})


def _hardware_used(devices: Iterable[DeviceDoc]) -> str:
    """Return the accelerators as `8 x NVIDIA H100`, or the CPUs of a job without accelerators."""
    accelerators = [d for d in devices if d.device_class in ("gpu", "accelerator", "module")]
    chosen = accelerators or [d for d in devices if d.device_class == "cpu"]
    names = dict.fromkeys(device.name for device in chosen)
    counts = {name: sum(d.name == name for d in chosen) for name in names}
    return ", ".join(f"{count} x {name}" for name, count in counts.items())


def card(document: JobDoc) -> str:
    """Return a model card with the block alone."""
    return f"{_FENCE}\n{block(document)}{_FENCE}\n"


def into_card(text: str, document: JobDoc) -> str:
    """Return the card `text` with the block replaced or added; the rest stays byte for byte.

    Raises ExportError if the card's front matter has no end.
    """
    lines = text.splitlines(keepends=True)
    if not lines or lines[0].rstrip() != _FENCE:
        return f"{card(document)}{text}"
    closing = next((n for n, line in enumerate(lines) if n and line.rstrip() == _FENCE), None)
    if closing is None:
        raise ExportError("the card's front matter has no closing ---")
    others = _without_block(lines[1:closing])
    return "".join([lines[0], *others, block(document), *lines[closing:]])


def _without_block(lines: list[str]) -> list[str]:
    others, inside = [], False
    for line in lines:
        if line.startswith(f"{KEY}:"):
            inside = True
        elif not line[:1].isspace():
            inside = False
        if not inside:
            others.append(line)
    return others
