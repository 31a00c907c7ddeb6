"""A PyTorch of known speed, for the micro-benchmark: no device, every launch takes its time."""

import os
import time
from types import SimpleNamespace

__version__ = "0.0+fake"
float32, float16, bfloat16, uint8 = "float32", "float16", "bfloat16", "uint8"
FLOP_PER_S = {
    ("float32", False): 20e12,
    ("float32", True): 50e12,
    ("float16", False): 100e12,
    ("bfloat16", False): 110e12,
}
BYTES_PER_S = 1e12

sleep = time.sleep
usable = os.environ.get("FAKE_TORCH_CUDA", "1") == "1"
broken = os.environ.get("FAKE_TORCH_BROKEN", "")
_queued = [0.0]


class Tensor:
    def __init__(self, shape, dtype):
        self.shape, self.dtype = shape, dtype

    def copy_(self, other):
        _queued[0] += 2 * other.shape[0] / BYTES_PER_S
        return self


def empty(*shape, dtype, device):
    assert device == "cuda"
    return Tensor(shape, dtype)


def randn(*shape, dtype, device):
    return empty(*shape, dtype=dtype, device=device)


def matmul(left, right, out):
    if left.dtype == broken:
        raise RuntimeError(f"no kernel for {broken}")
    fast = left.dtype == "float32" and backends.cuda.matmul.allow_tf32
    rows, inner = left.shape
    _queued[0] += 2 * rows * inner * right.shape[1] / FLOP_PER_S[left.dtype, fast]
    return out


def _synchronize():
    waited, _queued[0] = _queued[0], 0.0
    sleep(waited)


cuda = SimpleNamespace(is_available=lambda: usable, synchronize=_synchronize)
backends = SimpleNamespace(cuda=SimpleNamespace(matmul=SimpleNamespace(allow_tf32=False)))
