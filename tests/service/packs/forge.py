"""Changes packs as somebody with a ZIP program would."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

from gramwatt.service.packs import archive
from gramwatt.service.packs import verify as verification
from gramwatt.service.packs.archive import CHECKSUMS, Collected, checksums, digest
from gramwatt.service.packs.verify import Verdict


def verify(pack: bytes) -> Verdict:
    """What is found in a pack."""
    return verification.verify(io.BytesIO(pack))


def read(pack: bytes) -> dict[str, bytes]:
    """The files of a pack."""
    return dict(archive.read(io.BytesIO(pack)))


def write(files: dict[str, bytes]) -> bytes:
    """An archive of files."""
    stream = io.BytesIO()
    with Collected() as collected:
        for name, content in files.items():
            collected.add(name, content)
        archive.write(collected, stream)
    return stream.getvalue()


def digests(files: dict[str, bytes]) -> dict[str, str]:
    """The SHA-256 of each file."""
    return {name: digest(content) for name, content in files.items()}


def members(pack: bytes) -> dict[str, bytes]:
    """The files of a pack, as any ZIP program reads them."""
    with zipfile.ZipFile(io.BytesIO(pack)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def sealed(files: dict[str, bytes]) -> bytes:
    """A pack of these files whose checksums and seal fit: a forgery without a flaw in its form."""
    rest = {name: content for name, content in files.items() if name != CHECKSUMS}
    return write({**rest, CHECKSUMS: checksums(digests(rest))})


def with_json(pack: bytes, name: str, change: Callable[[Any], None]) -> bytes:
    """The pack with a change of one JSON file, and fitting checksums."""
    files = members(pack)
    document = json.loads(files[name])
    change(document)
    files[name] = json.dumps(document).encode()
    return sealed(files)


def light(pack: bytes) -> bytes:
    """The pack as if its PDF were rendered by other releases: it is not rendered again."""
    return with_json(pack, "pack.json", lambda about: about.update(rendered_with={}))
