"""How a serving process keeps its memory small: what glibc's allocator is told at the start."""

from __future__ import annotations

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
"""Parameters of mallopt(3), in glibc's malloc.h."""
LARGE_B = 4 * 2**20
ARENAS = 2


def keep_small() -> None:
    """Have glibc return memory of 4 MiB and more to the system when it is freed, and threads share
    two arenas.

    It raises that size to the largest block freed so far, up to 32 MiB (mallopt(3)), so a server
    that has read some large bodies would keep half as much memory again; and it makes up to eight
    arenas a core, each of which keeps what its threads once needed. Call it before threads start.
    Does nothing elsewhere.
    """
    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)):
        for parameter in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD):
            mallopt(parameter, LARGE_B)
        mallopt(M_ARENA_MAX, ARENAS)
