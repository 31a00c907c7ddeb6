"""Settings of sign-in by an OpenID Connect provider; docs/access.md describes the variables."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class GroupProjects:
    """A group of the provider, the projects that its people see, and what they may do there."""

    group: str
    projects: frozenset[str]
    scope: str

    def __str__(self) -> str:
        names = ",".join(quote(name, safe="") for name in sorted(self.projects))
        return f"{quote(self.group, safe='/')}={names}:{self.scope}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcConfig:
    """The OpenID Connect provider of the pages, and which of its groups may do what."""

    issuer: str = field(repr=False)
    client_id: str
    secret_file: Path | None = None
    groups_claim: str = "groups"
    admin_groups: tuple[str, ...] = ()
    read_groups: tuple[str, ...] = ()
    projects: tuple[GroupProjects, ...] = ()

    def client_secret(self) -> str | None:
        """Return the secret in its file; None for a public client. Raises OSError."""
        return self.secret_file.read_text("utf-8").strip() if self.secret_file else None
