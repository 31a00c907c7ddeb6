"""Whether a path lies on a network file system, where SQLite's WAL mode loses data."""

from __future__ import annotations

from pathlib import Path

LOCAL_TYPES = frozenset(
    {
        *("apfs", "bcachefs", "btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "hfs", "jfs"),
        *("overlay", "ramfs", "reiserfs", "tmpfs", "ufs", "vfat", "xfs", "zfs"),
    }
)
"""File systems known to share memory between processes of one machine, which WAL needs
(SQLite documentation, "Write-Ahead Logging", section 1). Everything else counts as remote."""

MOUNTS = Path("/proc/self/mountinfo")


def is_local(path: Path, mounts: str | None = None) -> bool:
    """Return whether `path` lies on a file system known to be local; False when that is unknown.

    Links are followed.
    """
    if mounts is None:
        try:
            mounts = MOUNTS.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return False
    return mounted_type(path.resolve(), mounts) in LOCAL_TYPES


def mounted_type(path: Path, mounts: str) -> str | None:
    """Return the file system type under `path`, out of the text of /proc/self/mountinfo (man 5
    proc).
    """
    best: tuple[int, str] | None = None
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        point = Path(fields[4].replace("\\040", " "))
        # A later mount on the same point hides an earlier one, hence >=.
        if path.is_relative_to(point) and (best is None or len(point.parts) >= best[0]):
            best = (len(point.parts), after.split()[0])
    return best[1] if best else None
