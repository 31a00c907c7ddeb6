"""How a server keeps memory: large blocks go back to the system, and cycles are sought seldom."""

from __future__ import annotations

import ctypes
import gc
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # mallopt(3), malloc.h of glibc
_LARGE_B = 4 * 2**20
_NEW_OBJECTS = 20_000
"""New containers after which Python looks for cycles among them; uploads make some per interval and
no cycles, and with Python's 700 the search is a tenth of the work of an upload."""


def set_up() -> None:
    """Set how the C library and Python free memory in this process.

    glibc raises the size from which it maps a block of its own to the largest block freed so far,
    up to 32 MiB: each large body then leaves a hole in one of many heaps, and a server that has
    read some keeps half as much memory again. Here it stays at 4 MiB: what uploads and months are
    read into is smaller, and used again, so that not each of them asks the system for its pages.
    Elsewhere than with glibc only the search for cycles changes.
    """
    gc.set_threshold(_NEW_OBJECTS, *gc.get_threshold()[1:])
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_M_MMAP_THRESHOLD, _LARGE_B)
            mallopt(_M_TRIM_THRESHOLD, _LARGE_B)
