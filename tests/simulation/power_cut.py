"""What is left of a folder after a power cut at any moment of a real process.

`recorded` runs a program under strace and reads which system calls changed files of its folder, and
what it wrote to its output meanwhile. `Disk.after` makes the folder as a cut after some calls may
leave it:

- what was written to a file since its last sync is there or not, by sectors, in any combination;
- entries of a folder (files made, renamed, deleted) since its last sync are there up to one
  of them, in their order, as a file system with a log of its metadata keeps them;
- where a file was renamed over another, its content is on disk before its name, as ext4 does by
  default (`auto_da_alloc`) and btrfs.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

CALLS = (
    "openat,close,write,pwrite64,ftruncate,rename,renameat,renameat2,unlink,unlinkat,"
    "fsync,fdatasync"
)
SECTOR_B = 512
_CALL = re.compile(r"^(\w+)\((.*)\)\s+= (-?\d+)", re.DOTALL)
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')


@dataclass(frozen=True)
class Step:
    """A call that changed or synced something: a file by its number, or an entry by its name."""

    call: str
    file: int = 0
    at: int = 0
    data: bytes = b""
    name: str = ""
    target: str = ""


@dataclass
class File:
    """What a file holds on disk, and what was done to it since."""

    durable: bytes = b""
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)

    def sync(self) -> None:
        """Everything is on disk."""
        self.durable = self.with_(self.pending)
        self.pending = []

    def with_(self, done: list[tuple[int, bytes | None]]) -> bytes:
        """Its content where these were done; without data, a file is cut or grown to that size."""
        content = bytearray(self.durable)
        for at, data in done:
            if data is None:
                content = content[:at].ljust(at, b"\0")
            else:
                content = content.ljust(at, b"\0")
                content[at : at + len(data)] = data
        return bytes(content)

    def survived(self, luck: Random | None, share: float) -> bytes:
        """Its content after a cut: each sector written since is there with this probability."""
        if luck is None:
            return self.with_(self.pending if share else [])
        kept: list[tuple[int, bytes | None]] = []
        for at, data in self.pending:
            if data is None:
                kept += [(at, None)] * (luck.random() < share)
                continue
            end = at + len(data)
            edges = [at, *range(at // SECTOR_B * SECTOR_B + SECTOR_B, end, SECTOR_B), end]
            for left, right in zip(edges, edges[1:], strict=False):
                kept += [(left, data[left - at : right - at])] * (luck.random() < share)
        return self.with_(kept)


def recorded(folder: Path, program: str, *arguments: str) -> list[Step]:
    """Run a program of Python whose one thread changes files in `folder`; its steps.

    What it writes to its output is among them, as `said`.
    """
    log = folder.parent / f"{folder.name}.strace"
    reader = _Log(folder)
    command = ["strace", "-xx", "-s", "100000000", "-e", f"trace={CALLS}", "-o", str(log)]
    command += [sys.executable, "-c", program, str(folder), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    for line in log.read_text().splitlines():
        reader.read(line)
    return reader.steps


class _Log:
    """Reads strace's lines; it knows which file a name and a descriptor mean at the time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        names = sorted(path.name for path in folder.iterdir())
        self.numbers = {name: number for number, name in enumerate(names, 1)}
        self.sizes = {n: (folder / name).stat().st_size for name, n in self.numbers.items()}
        self.opened: dict[int, list[int]] = {}
        """By descriptor: the number of the file, 0 for the folder; position; if it appends."""
        self.steps: list[Step] = []

    def read(self, line: str) -> None:
        """Take in a call that succeeded."""
        found = _CALL.match(line)
        if found is None or found[3].startswith("-"):
            return
        call, rest, result = found[1], found[2], int(found[3])
        texts = [bytes.fromhex(text.replace("\\x", "")) for text in _TEXT.findall(rest)]
        if call in ("openat", "rename", "renameat", "renameat2", "unlink", "unlinkat"):
            paths = [Path(text.decode()) for text in texts]
            if call == "openat":
                self._open(paths[0], rest, result)
            elif paths[-1].parent == self.folder:
                self._entry(*(path.name for path in paths))
            return
        descriptor = int(rest.partition(",")[0])
        if call == "write" and descriptor == 1:
            self.steps.append(Step("said", data=texts[0]))
        elif call == "close":
            self.opened.pop(descriptor, None)
        elif descriptor in self.opened:
            self._change(call, self.opened[descriptor], rest, texts, result)

    def _open(self, path: Path, flags: str, descriptor: int) -> None:
        self.opened.pop(descriptor, None)
        if path == self.folder:
            self.opened[descriptor] = [0, 0, 0]
        if path.parent != self.folder:
            return
        if path.name not in self.numbers:
            number = self.numbers[path.name] = len(self.sizes) + 1
            self.sizes[number] = 0
            self.steps.append(Step("make", number, name=path.name))
        number = self.numbers[path.name]
        if "O_TRUNC" in flags and self.sizes[number]:
            self.sizes[number] = 0
            self.steps.append(Step("cut", number))
        self.opened[descriptor] = [number, 0, "O_APPEND" in flags]

    def _entry(self, name: str, target: str = "") -> None:
        number = self.numbers.pop(name)
        if target:
            self.numbers[target] = number
        self.steps.append(Step("rename" if target else "delete", name=name, target=target))

    def _change(
        self, call: str, opened: list[int], rest: str, texts: list[bytes], result: int
    ) -> None:
        number, position, appends = opened
        if call in ("fsync", "fdatasync"):
            self.steps.append(Step("sync", number))
        elif call == "ftruncate":
            self.sizes[number] = size = int(rest.partition(",")[2])
            self.steps.append(Step("cut", number, size))
        else:
            at = self.sizes[number] if appends else position
            if call == "pwrite64":
                at = int(rest.rpartition(",")[2])
            else:
                opened[1] = at + result
            self.sizes[number] = max(self.sizes[number], at + result)
            self.steps.append(Step("write", number, at, texts[0][:result]))


class Disk:
    """A folder on a disk, whose process has done some steps."""

    def __init__(self, before: dict[str, bytes]) -> None:
        self.files = {n: File(content) for n, (_, content) in enumerate(sorted(before.items()), 1)}
        self.entries = {name: n for n, name in enumerate(sorted(before), 1)}
        self.pending: list[Step] = []

    def do(self, step: Step) -> None:
        """One more step was done."""
        if step.call == "make":
            self.files[step.file] = File()
        if step.call in ("make", "rename", "delete"):
            self.pending.append(step)
        elif step.call == "write":
            self.files[step.file].pending.append((step.at, step.data))
        elif step.call == "cut":
            self.files[step.file].pending.append((step.at, None))
        elif step.call == "sync" and step.file:
            self.files[step.file].sync()
        elif step.call == "sync":
            self.entries = self._named(len(self.pending))
            self.pending = []

    def _named(self, count: int) -> dict[str, int]:
        entries = dict(self.entries)
        for step in self.pending[:count]:
            if step.call == "make":
                entries[step.name] = step.file
            elif step.call == "delete":
                entries.pop(step.name, None)
            else:
                file = entries.pop(step.name)
                if step.target in entries:
                    self.files[file].sync()
                entries[step.target] = file
        return entries

    def after(self, luck: Random | None, share: float) -> dict[str, bytes]:
        """The files after a cut now: nothing, everything, or by luck, that was not synced."""
        count = round(share * len(self.pending))
        if luck is not None:
            count = luck.randint(0, len(self.pending))
        entries = self._named(count)
        return {name: self.files[n].survived(luck, share) for name, n in entries.items()}


def cuts(
    before: dict[str, bytes], steps: list[Step], seeds: int = 2
) -> Iterator[tuple[list[bytes], dict[str, bytes]]]:
    """Yield what the process had said, and the files that are left, for cuts after each step."""
    for luck, share in [(None, 0.0), (None, 1.0), *((Random(n), 0.5) for n in range(seeds))]:
        said: list[bytes] = []
        disk = Disk(before)
        for step in steps:
            disk.do(step)
            if step.call == "said":
                said.append(step.data)
            yield list(said), _copied(disk).after(luck, share)


def _copied(disk: Disk) -> Disk:
    """A cut does not change the disk of the story that goes on."""
    copy = Disk({})
    copy.files = {n: File(f.durable, list(f.pending)) for n, f in disk.files.items()}
    copy.entries, copy.pending = dict(disk.entries), list(disk.pending)
    return copy
