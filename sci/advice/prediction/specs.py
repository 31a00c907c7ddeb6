"""What the time model needs of a part: peak rates, memory bandwidth and rated power.

Every figure is the catalog's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gramwatt.sci.catalog.hardware import Hardware, Peak

RATES: Mapping[str, str] = {
    **dict.fromkeys(("fp16", "bf16", "mixed", "q4", "int4"), "half"),
    **dict.fromkeys(("fp8", "int8", "fp4"), "eighth"),
    **dict.fromkeys(("tf32", "fp32", "unstated"), "single"),
    "fp32-cores": "plain",
}
"""Which peak rate a precision runs at. Four-bit weights compute in half precision; FP4 results are
few and count with the 8-bit rate. FP32 of measurements counts with TF32 where the part has it, as
in the containers that they ran in; so do rows that do not state it (the Zeus trace)."""
POSSIBLE: Mapping[str | None, tuple[str, ...]] = {
    None: ("half", "single", "plain"),
    "fp32": ("single", "plain"),
}
"""Rates that a request may run at where its precision does not say which: FP32 runs on TF32 units
only where the framework switches them on, as vendors' containers do and PyTorch by default does for
convolutions, not for matrix products (PyTorch, CUDA semantics, TensorFloat-32)."""
TENSOR_ONLY = 4.0
"""Half over single peak rate above which the single rate is that of plain cores: TF32 is half."""


@dataclass(frozen=True, slots=True)
class Specs:
    """Peak dense rates [TFLOPS], bandwidth [GB/s] and rated power [W]; None where not known."""

    id: str
    half: float | None
    eighth: float | None
    single: float | None
    bandwidth_gbs: float | None
    tdp_w: float | None
    plain: float | None = None
    """FP32 on plain cores, which is `single` on parts without TF32."""

    @property
    def has_tf32(self) -> bool:
        """Whether single precision runs on the matrix engine: at half the rate of 16 bits."""
        return bool(self.half and self.single and self.half / self.single < TENSOR_ONLY)

    def peak(self, precision: str) -> float | None:
        """The peak rate [TFLOPS] at which a precision runs, the next wider one where it lacks."""
        return self.rate(RATES[precision])

    def rate(self, name: str) -> float | None:
        """A peak rate [TFLOPS] by its name in `RATES`, the next wider one where it lacks."""
        order = {
            "half": (self.half, self.single),
            "eighth": (self.eighth, self.half, self.single),
            "single": (self.single, self.half),
            "plain": (self.plain, self.single, self.half),
        }
        return next((rate for rate in order[name] if rate), None)


def specs_of(part: Hardware) -> Specs:
    """The figures of a catalog part."""
    rates = part.peak
    return Specs(
        part.id,
        rates.fp16_tensor or rates.bf16_tensor,
        _eighth(rates),
        rates.tf32 or rates.fp32,
        part.memory_bandwidth_gbs,
        part.tdp_w,
        rates.fp32,
    )


def _eighth(rates: Peak) -> float | None:
    known = [rate for rate in (rates.fp8, rates.int8_tops) if rate]
    return max(known) if known else None
