"""How fast and on how many devices a language model is served, where nothing was measured.

One step of a server reads the weights and the attention caches of all sequences from memory and
multiplies each sequence with the weights; it makes one token of every sequence. The four constants
are a fit to 515 metered runs of the ML.ENERGY leaderboard v3 (1 to 8 devices, H100 and B200) and to
LocalScore (4 bits, one sequence, 19 devices): 89 and 98 % of them lie within a factor of 2. What
vendors tune for MLPerf makes 1.8 times as many tokens (tests/data/serving_rates.csv).
"""

from __future__ import annotations

import math

from msgspec import Struct

from gramwatt.sci.catalog.hardware import Hardware
from gramwatt.sci.figures.quantity import Quantity, of_sources
from gramwatt.sci.figures.units import BYTES_PER_GIB, flop_per_s_from_tflops

WEIGHT_BYTES = {
    **dict.fromkeys(("fp32", "tf32"), 4.0),
    **dict.fromkeys(("fp16", "bf16"), 2.0),
    **dict.fromkeys(("fp8", "int8"), 1.0),
    **dict.fromkeys(("fp4", "int4"), 0.5),
}
"""Bytes of a weight by precision."""
SOURCE = "a step of serving, fitted to ML.ENERGY leaderboard v3 and LocalScore"
LAYER_S = 0.00015
"""Time of a layer in a step that neither memory nor arithmetic explains: launching its work."""
OF_BANDWIDTH = 0.8
OF_PEAK = 0.25
"""Share of the memory bandwidth, and of the peak dense rate of half precision, that is reached."""
CONTEXT_TOKENS = 1100.0
"""Tokens of a sequence that lie in its attention cache, in the mean of its time."""
FLOP_PER_PARAMETER_TOKEN = 2.0
"""Forward pass of a dense model, per parameter and token (arXiv:2001.08361, 2.1)."""
RATE_ERROR = 2.0
"""Eight rates in ten of sources that were not fitted lie within this factor of the model's."""
SEQUENCES = Quantity(
    64.0, 16.0, 256.0, "1", "estimated", "sequences at a time of a busy server; the runs of "
    "ML.ENERGY leaderboard v3 have 8 to 767, median 64"
)  # fmt: skip
TOKENS_PER_REQUEST = Quantity(
    630.0, 370.0, 920.0, "1", "estimated", "tokens of an answer in chat (ML.ENERGY leaderboard v3)"
)
MARGIN = 1.1
"""On weights, caches and measured peaks: what the framework holds besides (an estimate)."""
WIDTH_PER_LAYER = 128.0
"""Width over depth of published dense models: LLaMA 7B 4096/32, 13B 5120/40, GPT-3 12288/96."""
GROUPED_QUERIES = 8.0
"""Sharing of keys and values among query heads in current models; the low end of the cache."""
CACHE_BYTES_PER_LAYER_WIDTH = 4.0
"""Keys and values of two bytes each."""


class Model(Struct, frozen=True):
    """A language model: all parameters, those that one token passes, and bytes of a weight."""

    parameters: float
    activated: float
    weight_bytes: float

    @property
    def layers(self) -> float:
        """Return the layers of a dense model of that size: parameters = 12 x layers x width^2."""
        return math.cbrt(self.parameters / (12 * WIDTH_PER_LAYER**2))

    def cache_bytes(self, tokens: float = CONTEXT_TOKENS) -> float:
        """Return the attention cache of one sequence of so many tokens."""
        a_token = CACHE_BYTES_PER_LAYER_WIDTH * self.layers**2 * WIDTH_PER_LAYER / GROUPED_QUERIES
        return a_token * tokens

    def memory_gib(self, sequences: float, tokens: float = CONTEXT_TOKENS) -> float:
        """Return the memory of all devices together [GiB] for so many sequences at a time, each of
        so many tokens.
        """
        whole = self.parameters * self.weight_bytes + sequences * self.cache_bytes(tokens)
        return whole * MARGIN / BYTES_PER_GIB

    def devices(self, memory_gib: float, sequences: float) -> int:
        """Return the least number of devices that hold it."""
        return math.ceil(self.memory_gib(sequences) / memory_gib)

    def tokens_per_s(
        self, peak_flop_per_s: float, bandwidth_b_per_s: float, devices: float, sequences: float
    ) -> float:
        """Return the tokens that the devices together make in a second [1/s]."""
        read = self.weight_bytes * min(self.parameters, self.activated * sequences)
        read += sequences * self.cache_bytes()
        operations = FLOP_PER_PARAMETER_TOKEN * self.activated * sequences
        memory_s = read / (devices * bandwidth_b_per_s * OF_BANDWIDTH)
        arithmetic_s = operations / (devices * peak_flop_per_s * OF_PEAK)
        return sequences / (LAYER_S * self.layers + memory_s + arithmetic_s)


def serving_rate(
    model: Model, part: Hardware, share: float, devices: float, sequences: Quantity
) -> Quantity | None:
    """Return the tokens per second of each device [1/s]; None where its data sheet is incomplete.

    `share` is the share of each device that is had, `devices` how many hold the model together.
    """
    peak = part.bf16_tensor_tflops or part.fp16_tensor_tflops or part.fp32_tflops
    if not peak or not part.memory_bandwidth_gbs:
        return None
    flop_per_s = flop_per_s_from_tflops(peak * share)
    bandwidth = part.memory_bandwidth_gbs * share * 1e9

    def rate(number: float) -> float:
        return model.tokens_per_s(flop_per_s, bandwidth, devices, number) / devices

    value, low, high = map(rate, (sequences.value, sequences.low, sequences.high))
    figure = of_sources(value, low, high, "1/s", "estimated", sequences.sources)
    error = Quantity(1.0, 1 / RATE_ERROR, RATE_ERROR, "1", "estimated", SOURCE)
    return figure.times(error, "1/s")
