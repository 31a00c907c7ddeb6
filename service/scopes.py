"""What keys may do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

Scope = Literal["ingest", "read", "member", "metrics", "admin"]
INGEST, READ, MEMBER, METRICS, ADMIN = get_args(Scope)
SCOPES: Mapping[str, str] = {
    INGEST: "send records",
    READ: "jobs and reports",
    MEMBER: "both, for who runs jobs",
    METRICS: "/metrics alone",
    ADMIN: "everything",
}
"""What a key of each scope may do; which routes that opens is in `api/access.py`."""
INCLUDED: Mapping[str, tuple[str, ...]] = {MEMBER: (INGEST, READ)}
"""Scopes that another has."""
