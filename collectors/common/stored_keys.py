"""Keys that `gramwatt login --server` stored, each for one server, in a file of this user alone."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from gramwatt.collectors.common import files

NAME = "keys.toml"
"""Lies beside the user's config.toml; each line is an address and its key."""


def key_for(folder: Path, server: str) -> str | None:
    """Return the key that was stored for a server, the same address to the letter; else None."""
    key = _stored(folder).get(server)
    return key if isinstance(key, str) and key else None


def store(folder: Path, server: str, key: str) -> Path:
    """Keep a key for a server in place of the one before, and return the file; raises OSError."""
    files.folder(folder)
    lines = {**_stored(folder), server: key}.items()
    text = "".join(f"{json.dumps(name)} = {json.dumps(value)}\n" for name, value in lines)
    files.replace_text(folder / NAME, text)
    return folder / NAME


def _stored(folder: Path) -> dict[str, object]:
    try:
        return tomllib.loads(files.text_of(folder / NAME) or "")
    except ValueError:
        return {}
