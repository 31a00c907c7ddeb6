"""What production code finds instead of `os`, `time`, `shutil` and the machine it is on.

Files are real ones, on a disk in memory. The stand-ins count system calls, fill the disk, kill who
uses it, stamp files by the machine's clock, and tell the ledger what lies on the disk.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from gramwatt.collectors.settings import files, identity, proc
from gramwatt.collectors.spool import recovery, send, spool, writer
from gramwatt.sci.records import records
from gramwatt.service.months import cache
from tests.simulation.world import NS_PER_S, Death, Machine, World

if TYPE_CHECKING:
    from tests.simulation.budgets import Receiver
    from tests.simulation.ledger import Ledger
    from tests.simulation.network import Network
    from tests.simulation.server import Plant


WRITTEN_BACK_NS = 36 * NS_PER_S
"""Linux writes back what is older than 30 s, and looks every 5 s (dirty_expire_centisecs)."""


class Scene:
    """Which world the stand-ins belong to; one at a time in a process."""

    world: World
    ledger: Ledger
    network: Network
    receiver: Receiver
    plant: Plant
    synced: dict[int, int]
    """By inode, the size [B] up to which a file would survive a power cut."""
    written_ns: dict[int, int]
    """By inode, when a file was written last, by a clock that nobody sets."""
    kept: dict[str, bytes]
    """By path, the open file that would survive a power cut."""

    def machine(self) -> Machine:
        """The machine of the process that acts."""
        assert self.world.machine is not None, "nobody acts"
        return self.world.machine


SCENE = Scene()


def wall_ns(machine: Machine) -> int:
    """Unix time by a machine's clock [ns]."""
    return SCENE.world.now_ns + machine.skew_ns


class Time:
    """`time`, by the clock of the machine that asks."""

    def time(self) -> float:
        """Unix time [s]."""
        return wall_ns(SCENE.machine()) / NS_PER_S

    def monotonic(self) -> float:
        """Time since boot [s]."""
        return (SCENE.world.now_ns - SCENE.machine().booted_ns) / NS_PER_S

    def monotonic_ns(self) -> int:
        """Time since boot [ns]."""
        return SCENE.world.now_ns - SCENE.machine().booted_ns

    def sleep(self, duration_s: float) -> None:
        """Wait [s]."""
        SCENE.world.pass_s(duration_s)


class Os:
    """`os`, on a disk that may be full and that may kill; the rest is the real one."""

    def __init__(self, *, owned: bool) -> None:
        self._owned = owned  # descriptors that nobody but the process itself would close
        self._partial: dict[int, bytes] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: Any, flags: int, mode: int = 0o777) -> int:
        """As `os.open`; a new file may find no room. Folders are opened to be synced only."""
        if flags & os.O_DIRECTORY:
            return os.open(path, flags, mode)
        _step("open")
        made = bool(flags & os.O_CREAT) and not os.path.exists(path)
        if made:
            _room()
        descriptor = os.open(path, flags, mode)
        if made:
            _stamp(descriptor)
        if self._owned and SCENE.world.process:
            SCENE.world.process.descriptors.add(descriptor)
        return descriptor

    def close(self, descriptor: int) -> None:
        """As `os.close`."""
        if SCENE.world.process:
            SCENE.world.process.descriptors.discard(descriptor)
        os.close(descriptor)

    def write(self, descriptor: int, data: bytes) -> int:
        """As `os.write`: whole, in part, not at all, or the last thing that its process does."""
        world = SCENE.world
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        fatal = _is_last_call()
        if not fatal and SCENE.machine().full and world.draw.random() < 0.5:
            raise OSError(errno.ENOSPC, "No space left on device")
        if fatal or SCENE.machine().full:
            part = data[: world.draw.randrange(len(data))]
            os.write(descriptor, part)
            _stamp(descriptor)
            self._partial[descriptor] = part
            if fatal:
                SCENE.ledger.on_disk(path, part)
                world.fault("kill", "in write")
                raise Death
            return len(part)
        os.write(descriptor, data)
        _stamp(descriptor)
        SCENE.ledger.on_disk(path, data)
        return len(data)

    def ftruncate(self, descriptor: int, size_b: int) -> None:
        """As `os.ftruncate`; what a process leaves in part when it dies, stays."""
        part = self._partial.pop(descriptor, b"")
        try:
            _step("ftruncate")
        except Death:
            SCENE.ledger.on_disk(os.readlink(f"/proc/self/fd/{descriptor}"), part)
            raise
        os.ftruncate(descriptor, size_b)
        _stamp(descriptor)

    def fdatasync(self, descriptor: int) -> None:
        """What is written so far survives a power cut."""
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):  # names survive here; test_power_cut doubts that
            return
        _step("fdatasync")
        SCENE.synced[found.st_ino] = found.st_size
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if path.endswith(".open"):
            SCENE.kept[path] = os.pread(descriptor, found.st_size, 0)

    fsync = fdatasync

    def replace(self, source: Any, target: Any) -> None:
        """As `os.replace`; who dies here may have done it before.

        No journal may be deleted before all of it was acknowledged.
        """
        if Path(target).parent.name == spool.DELIVERED:
            SCENE.ledger.deleting(Path(source))
        fatal = _is_last_call()
        if fatal and SCENE.world.draw.random() < 0.5:
            SCENE.world.fault("kill", "before replace")
            raise Death
        _replace(Path(source), Path(target))
        if fatal:
            SCENE.world.fault("kill", "after replace")
            raise Death


class Shutil:
    """`shutil`, for deleting a delivered folder."""

    def rmtree(self, path: str, ignore_errors: bool = False) -> None:
        """As `shutil.rmtree`; who dies here has deleted a part."""
        if SCENE.world.process and SCENE.world.process.dead:
            raise Death
        if _is_last_call():
            for file in sorted(Path(path).iterdir())[: SCENE.world.draw.randrange(4)]:
                file.unlink()
            SCENE.world.fault("kill", "in rmtree")
            raise Death
        shutil.rmtree(path, ignore_errors=ignore_errors)


class Uuid:
    """`uuid`, from the seed."""

    def uuid4(self) -> uuid.UUID:
        """An id."""
        return uuid.UUID(int=SCENE.world.draw.getrandbits(128), version=4)


class Random:
    """`random`, from the seed."""

    def uniform(self, low: float, high: float) -> float:
        """A number between two."""
        return SCENE.world.draw.uniform(low, high)


def _is_last_call() -> bool:
    """Whether the acting process dies at this system call."""
    process = SCENE.world.process
    if process is None:
        return False
    if process.dead:
        raise Death
    if process.doom is None:
        return False
    process.doom -= 1
    process.dead = process.doom < 0
    return process.dead


def _step(name: str) -> None:
    if _is_last_call():
        SCENE.world.fault("kill", f"in {name}")
        raise Death


def _room() -> None:
    if SCENE.machine().full and SCENE.world.draw.random() < 0.3:
        raise OSError(errno.ENOSPC, "No space left on device")


def _stamp(what: int | Path) -> None:
    moment_ns = wall_ns(SCENE.machine())
    os.utime(what, ns=(moment_ns, moment_ns))
    SCENE.written_ns[os.stat(what).st_ino] = SCENE.world.now_ns


def _replace(source: Path, target: Path) -> None:
    os.replace(source, target)
    _stamp(target.parent if target.is_dir() else target)
    if target.suffix not in (".open", ".jsonl"):
        return
    content = target.read_bytes()
    synced = SCENE.synced.get(target.stat().st_ino) == len(content)
    if synced and target.suffix == ".open":
        SCENE.kept[os.fspath(target)] = content
    SCENE.ledger.on_disk(os.fspath(target), content)
    if target.suffix == ".open" and SCENE.world.process:
        SCENE.world.process.on_saved(synced)


def cut_power(machine: Machine) -> None:
    """Take from a machine's disk what was not synced: tails of journals, and open files."""
    draw = SCENE.world.draw
    old_ns = SCENE.world.now_ns - WRITTEN_BACK_NS
    for path in sorted(machine.home.rglob("*.jsonl")):
        found = path.stat()
        if SCENE.written_ns.get(found.st_ino, 0) < old_ns:
            continue
        synced_b = SCENE.synced.get(found.st_ino, 0)
        if found.st_size > synced_b:
            os.truncate(path, draw.randint(synced_b, found.st_size))
            os.utime(path, ns=(found.st_mtime_ns, found.st_mtime_ns))
    for path in sorted(machine.home.rglob("*.open")):
        found = path.stat()
        if SCENE.written_ns.get(found.st_ino, 0) < old_ns:
            continue
        if SCENE.synced.get(found.st_ino) != found.st_size and draw.random() < 0.5:
            path.write_bytes(SCENE.kept.get(os.fspath(path), b""))
            os.utime(path, ns=(found.st_mtime_ns, found.st_mtime_ns))
    SCENE.ledger.after_power_cut(machine)


def _process_start_ns(pid: int) -> int | None:
    return SCENE.machine().alive.get(pid)


def _skewed(encode: Callable[[Any], str]) -> Callable[[Any], str]:
    """Lines as other releases write them: an older one says less, a newer one more."""

    def written(record: Any) -> str:
        line = encode(record)
        release = SCENE.world.machine.release if SCENE.world.machine else "this"
        if release == "older" and record.TYPE == "job":
            line = line.replace(',"versions":{"gramwatt":"0"}', "").replace(',"name":"sim"', "")
        if release == "newer":
            line = f'{line[:-1]},"of_next_year":{{"a":[1,2.5,null]}}}}'
        return line

    return written


@contextmanager
def installed() -> Iterator[None]:
    """Put the stand-ins in the place of the modules that production code imported."""
    ours, theirs, encode = Os(owned=True), Os(owned=False), _skewed(records.encode)
    places: list[tuple[Any, str, Any]] = [
        *((module, "os", ours) for module in (writer, spool, recovery, send)),
        (files, "os", theirs),
        *((module, "time", Time()) for module in (writer, spool, send)),
        *((module, "encode", encode) for module in (writer, recovery)),
        (spool, "shutil", Shutil()),
        (spool, "uuid", Uuid()),
        (cache, "Lock", RLock),  # whoever comes in between here is of the same thread
        (identity, "node_id", lambda allow_host_names=False: SCENE.machine().node),
        (identity, "machine_id", lambda: SCENE.machine().name),
        (proc, "boot_id", lambda: SCENE.machine().boot),
        (proc, "process_start_ns", _process_start_ns),
    ]
    with ExitStack() as stack:
        for module, name, stand_in in places:
            stack.enter_context(patch.object(module, name, stand_in))
        yield
