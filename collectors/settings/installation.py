"""What is installed beside the client: its extras, and the store that one of them brings.

How to get an extra is the command that works here, not that of another place.
"""

from __future__ import annotations

import importlib
import json
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from importlib.metadata import Distribution

SERVICE_PACKAGES = ("flask", "sqlalchemy")
"""Packages of the extra `service`, by which its presence is known without importing it."""


class LocalStore(Protocol):
    """The store of this machine, which the extra `service` brings (gramwatt.service.local_store).

    `home` is the folder that the store lies in. Each raises a GramwattError, such as StoreError,
    for a store or a question that cannot be used.
    """

    def knows_more(self, home: Path, job_id: str) -> bool:
        """Tell whether it has what a score of the job from its spool alone would lack; fast."""
        ...

    def ingest(self, home: Path, job_id: str | None = None) -> list[str]:
        """Ingest the closed spools of a job, or of all; returns the ids of the jobs scored."""
        ...

    def document(self, home: Path, job_id: str) -> Mapping[str, Any] | None:
        """Return a job's newest document; None when it is not stored or cannot be scored."""
        ...

    def plan(self, home: Path, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the answer to a request, both as of POST /v1/plans."""
        ...

    def suggest(self, home: Path, job: str) -> Mapping[str, Any]:
        """Return the suggestions for a job that is typed: an id, the beginning of one, a name, or
        last.
        """
        ...

    def newest_jobs(
        self, home: Path, project: str, name: str, most: int
    ) -> Sequence[Mapping[str, Any]]:
        """Return the heads of the newest completed jobs of this name, as of GET /v1/jobs."""
        ...

    def budget(self, home: Path, project: str) -> Mapping[str, Any]:
        """Return the budget of a project as it stands, with its figures."""
        ...


def local_store() -> LocalStore | None:
    """Return the store of this machine; None where the extra `service` is not installed."""
    if not has_service():
        return None
    store: LocalStore = importlib.import_module("gramwatt.service.local_store")
    return store


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
        distribution = metadata.distribution("gramwatt")
    except metadata.PackageNotFoundError:
        return _pip([_with_extra(str(Path(__file__).resolve().parents[2]), extra)])
    source = _source(distribution, extra)
    return _pip(source or _packages(distribution, extra) or [f"gramwatt[{extra}]"])


def _source(distribution: Distribution, extra: str) -> list[str]:
    """Return pip's arguments for the place it was installed from (PEP 610), if any."""
    try:
        document = json.loads(distribution.read_text("direct_url.json") or "{}")
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


def _packages(distribution: Distribution, extra: str) -> list[str]:
    """Return what the extra requires, by its metadata."""
    marks = (f'extra == "{extra}"', f"extra == '{extra}'")
    rows = [text.partition(";") for text in distribution.requires or ()]
    return [name.strip() for name, _, marker in rows if marker.strip() in marks]


def _pip(arguments: list[str]) -> str:
    installer = [sys.executable, "-m", "pip", "install"]
    if find_spec("pip") is None:  # an environment that uv made
        installer = ["uv", "pip", "install", "--python", sys.executable]
    return shlex.join([*installer, *arguments])
