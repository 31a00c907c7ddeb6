"""How this installation gets an extra: the command that works here, not that of another place."""

from __future__ import annotations

import json
import re
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from importlib.metadata import Distribution

SERVICE_PACKAGES = ("flask", "sqlalchemy")
"""Packages of the extra `service`, by which its presence is known without importing it."""


def has_service() -> bool:
    """Tell whether the extra `service` is installed: jobs can be scored and shown here."""
    return all(find_spec(name) is not None for name in SERVICE_PACKAGES)


def missing_packages(extra: str) -> list[str]:
    """Return the packages of an extra that are not installed, by gramwatt's metadata."""
    from importlib import metadata

    missing = []
    try:
        for text in _packages(metadata.distribution("gramwatt"), extra):
            name = re.split(r"[^\w.-]", text, maxsplit=1)[0]
            if next(iter(metadata.distributions(name=name)), None) is None:
                missing.append(name)
    except metadata.PackageNotFoundError:  # a checkout that was not installed
        return []
    return missing


def install_command(extra: str) -> str:
    """Return the shell command that adds an extra to this installation of gramwatt.

    From the checkout or wheel it was installed from, or else, while no index has gramwatt, from the
    packages that the extra names.
    """
    from importlib import metadata  # 20 ms, for a message that is rarely needed

    try:
        found = metadata.distribution("gramwatt")
    except metadata.PackageNotFoundError:
        return _pip([_with_extra(str(Path(__file__).resolve().parents[2]), extra)])
    source = _source(found, extra)
    return _pip(source or _packages(found, extra) or [f"gramwatt[{extra}]"])


def _source(found: Distribution, extra: str) -> list[str]:
    """Return pip's arguments for the place it was installed from (PEP 610), if any."""
    try:
        document = json.loads(found.read_text("direct_url.json") or "{}")
        url = str(document.get("url", ""))
    except (ValueError, AttributeError):
        return []
    if "vcs_info" in document:
        vcs = document["vcs_info"]
        commit = vcs.get("requested_revision") or vcs.get("commit_id", "")
        return [f"gramwatt[{extra}] @ {vcs.get('vcs', 'git')}+{url}@{commit}"]
    path = Path(unquote(urlsplit(url).path)) if url.startswith("file:") else None
    if path is None or not path.exists():
        return []
    editable = (document.get("dir_info") or {}).get("editable", False)
    return [*(["-e"] if editable else []), _with_extra(str(path), extra)]


def _with_extra(path: str, extra: str) -> str:
    return f"{path}[{extra}]"


def _packages(found: Distribution, extra: str) -> list[str]:
    """Return what the extra requires, by its metadata."""
    marks = (f'extra == "{extra}"', f"extra == '{extra}'")
    rows = [text.partition(";") for text in found.requires or ()]
    return [name.strip() for name, _, marker in rows if marker.strip() in marks]


def _pip(arguments: list[str]) -> str:
    installer = [sys.executable, "-m", "pip", "install"]
    if find_spec("pip") is None:  # an environment that uv made
        installer = ["uv", "pip", "install", "--python", sys.executable]
    return shlex.join([*installer, *arguments])
