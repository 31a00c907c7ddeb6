"""Random texts that let somebody in, and what the store keeps of them."""

from __future__ import annotations

import hashlib
import json
import secrets


def new_token() -> str:
    """Return a random text of 256 bit."""
    return secrets.token_urlsafe(32)


def digest(text: str) -> str:
    """Return the SHA-256 digest of a token, in hexadecimal: what the store keeps of it."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def projects_text(projects: frozenset[str] | None) -> str | None:
    """Return the projects of a key as the store keeps them; None for every project."""
    return None if projects is None else json.dumps(sorted(projects))


def projects_of(text: str | None) -> frozenset[str] | None:
    """Return the projects that the store kept."""
    return None if text is None else frozenset(json.loads(text))
