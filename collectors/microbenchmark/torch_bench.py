"""Matrix products and copies by PyTorch: the only file that imports torch."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from gramwatt.collectors.devices.port import SourceAbsent
from gramwatt.sci.advice.prediction.device_rows import COPY
from gramwatt.sci.base.units import BYTES_PER_GIB

INSTALL = "install it for this GPU's driver (https://pytorch.org/get-started/locally/)"
SIZE, SMALL_SIZE = 8192, 4096
"""Rows of the square matrices: large enough that the matrix engines are full."""
SMALL_MEMORY_GIB = 8.0
"""Device memory below which the smaller matrices are taken."""
COPIED_BYTES = 2**29
DTYPES = {"fp32": "float32", "tf32": "float32", "fp16": "float16", "bf16": "bfloat16"}
"""Types of torch by precision; fp32 and tf32 differ in a switch."""


def check_installed() -> None:
    """Raise SourceAbsent with what to install where there is no PyTorch."""
    if find_spec("torch") is None:
        raise SourceAbsent(f"PyTorch, which does the work, is not installed: {INSTALL}")


class TorchBench:
    """PyTorch on the first device that CUDA shows to this process."""

    def __init__(self, memory_b: int) -> None:
        """Load PyTorch; raises SourceAbsent where it cannot use the device."""
        check_installed()
        try:
            self._torch: Any = import_module("torch")
            usable = self._torch.cuda.is_available()
        except Exception as error:  # a broken build: a library or a driver that does not match
            raise SourceAbsent(f"PyTorch cannot be used ({error}): {INSTALL}") from None
        if not usable:
            raise SourceAbsent(f"this PyTorch has no CUDA, or not for this driver: {INSTALL}")
        self.software = f"torch {self._torch.__version__}"
        self._size = SIZE if memory_b >= SMALL_MEMORY_GIB * BYTES_PER_GIB else SMALL_SIZE
        self._once: Callable[[], object] = lambda: None

    def open(self) -> None:
        """Make a context on the device by allocating a byte."""
        self._torch.empty(1, dtype=self._torch.uint8, device="cuda")
        self._torch.cuda.synchronize()

    def prepare(self, work: str, precision: str | None) -> float:
        """Allocate what the work needs; returns the amount of one launch [flop, or byte]."""
        torch = self._torch
        if work == COPY:
            source = torch.empty(COPIED_BYTES, dtype=torch.uint8, device="cuda")
            target = torch.empty(COPIED_BYTES, dtype=torch.uint8, device="cuda")
            self._once = lambda: target.copy_(source)
            return 2.0 * COPIED_BYTES  # each byte is read and written
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        kind, size = getattr(torch, DTYPES[precision or ""]), self._size
        # Random operands: those of zeros switch fewer bits and draw less power.
        left, right = (torch.randn(size, size, device="cuda", dtype=kind) for _ in range(2))
        product = torch.empty(size, size, device="cuda", dtype=kind)
        self._once = lambda: torch.matmul(left, right, out=product)
        return 2.0 * size**3

    def launch(self, times: int) -> None:
        """Do the prepared work so many times and wait for its end."""
        for _ in range(times):
            self._once()
        self._torch.cuda.synchronize()
