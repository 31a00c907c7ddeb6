"""Sixteen pairs of measurements where the ratio of peak rates misleads, and what is answered.

TF32 against plain single precision, decoding, overhead, immature serving software, and memory that
a part lacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gramwatt.sci.advice.prediction.measurements import Measurement, measurements
from gramwatt.sci.advice.prediction.predict import Workload, predict
from gramwatt.sci.advice.prediction.ratio_range import Prediction
from gramwatt.sci.catalog.catalog import Catalog

FRAMEWORKS = {"pytorch": "pytorch", "tuned": "tensorrt", "llama.cpp": "llama.cpp", "vllm": "vllm"}
"""A framework of each software stack of the measurements."""
H100, B200, V100 = "nvidia-h100-sxm5-80", "nvidia-b200", "nvidia-v100-sxm2-16"


@dataclass(frozen=True, slots=True)
class HardPair:
    """Number, workload, two parts, cells that name the rows, and the published speed-up."""

    number: int
    workload: str
    now: str
    target: str
    published: float
    cells: Mapping[str, object] = field(default_factory=dict)

    def row(self, part: str) -> Measurement:
        """The one row of a part; raises ValueError where there is not exactly one."""
        [row] = (
            row
            for row in measurements()
            if (row.workload, row.hardware) == (self.workload, part)
            and all(getattr(row, name) == cell for name, cell in self.cells.items())
        )
        return row

    def time_ratio(self) -> float:
        """Time on the target over time now, as measured."""
        return self.row(self.now).units_per_s / self.row(self.target).units_per_s

    def prediction(self, catalog: Catalog) -> Prediction:
        """What is answered to somebody who runs the first row and asks for the second part."""
        row = self.row(self.now)
        work = Workload(
            row.workload_class, FRAMEWORKS[row.stack], row.precision, row.batch, row.count
        )
        return predict(work, catalog.hardware(self.now), catalog.hardware(self.target), ())


HARD_PAIRS = (
    HardPair(1, "LLaMA3 8B Q4_K_M decode", "nvidia-rtx-3070", "nvidia-h100-pcie-80", 2.04),
    HardPair(2, "LLaMA3 8B Q4_K_M decode", "nvidia-rtx-3070", "nvidia-l40s", 1.60),
    HardPair(3, "LLaMA3 8B F16 decode", "nvidia-rtx-4090", "nvidia-h100-pcie-80", 1.25),
    HardPair(4, "LLaMA3 70B Q4_K_M decode", "nvidia-rtx-a6000", "nvidia-h100-pcie-80", 1.72),
    HardPair(5, "LLaMA3 8B F16 prefill", "nvidia-rtx-4090", "nvidia-h100-pcie-80", 1.14),
    HardPair(6, "Qwen3-8B gpqa", H100, B200, 0.31, {"batch": 8}),
    HardPair(7, "Qwen3-30B-A3B-Thinking-2507 gpqa", H100, B200, 0.36, {"batch": 8, "count": 1}),
    HardPair(8, "resnet50", V100, "nvidia-h100-pcie-80", 3.2, {"precision": "tf32"}),
    HardPair(9, "ssd", V100, "nvidia-rtx-6000-ada", 1.9, {"precision": "tf32"}),
    HardPair(10, "movielens-1m/ncf", V100, "nvidia-a40", 0.95, {"batch": 1024}),
    HardPair(11, "cifar100/shufflenetv2", V100, "nvidia-a40", 0.91, {"batch": 1024}),
    HardPair(12, "imagenet/resnet50", V100, "nvidia-a40", 0.89, {"batch": 256}),
    HardPair(13, "tacotron2", "nvidia-quadro-rtx-8000", H100, 4.5, {"precision": "tf32"}),
    HardPair(14, "resnet50 inference", "nvidia-t4", V100, 0.99, {"batch": 1, "precision": "fp16"}),
    HardPair(14, "resnet50 inference", "nvidia-t4", V100, 0.95, {"batch": 4, "precision": "fp16"}),
    HardPair(15, "gnn", "nvidia-h200-sxm", B200, 1.40, {"round": "v4.1"}),
    HardPair(16, "llama2-70b-99", "nvidia-l40s", B200, 24, {"use": "time"}),
)
"""Pair 14 stands at both ends of its batch sizes."""
