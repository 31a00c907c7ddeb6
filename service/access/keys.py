"""Keys: make, list and revoke them, and find the caller that a key stands for."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Collection, Sequence
from datetime import timedelta

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import asdict
from sqlalchemy.orm import Session

from gramwatt.collectors.settings.keys import HOME_PREFIX, home_key
from gramwatt.service.access import audit
from gramwatt.service.common.errors import (
    KeyNameError,
    UnknownKeyError,
)
from gramwatt.service.container import Caller, Service
from gramwatt.service.scopes import ADMIN, SCOPES
from gramwatt.service.store.access import ApiKey
from gramwatt.service.store.columns import span_us, text_from_us


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


NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
"""A key's name; it stands in the audit log and beside every change that was made with it."""
SERVER = "server"
"""The name of the caller with the server's own key."""
SHOWN = "gw_"
"""How the visible part of a key begins."""
PROJECTS_MOST = 100
_NOTE_USE_EVERY_US = 60_000_000
"""How exact `last_used_at` is [us]: noting each use would make every read a write."""


class KeyRow(Struct):
    """A key without its secret: the prefix is the visible part. No projects stand for all."""

    name: str
    prefix: str
    scope: str
    projects: list[str]
    created_at: str
    created_by: str
    expires_at: str | None
    last_used_at: str | None
    expired: bool


class NewKey(KeyRow):
    """A key as it was made; `key` is shown only this once."""

    key: str


class KeysAnswer(Struct):
    """Every key by name."""

    keys: list[KeyRow]


class RevokedKey(Struct):
    """The name of a key that no longer works."""

    name: str
    revoked_at: str


def create_key(
    service: Service,
    name: str,
    scope: str,
    projects: Collection[str] = (),
    *,
    expires: timedelta | None = None,
) -> NewKey:
    """Make a key of a scope, for all projects or those given, for ever or for a time.

    Raises KeyNameError for a name that is taken or no name, of a project too.
    """
    if scope not in SCOPES:
        raise ValueError(f"scope {scope!r} is none of {', '.join(SCOPES)}")
    if not NAME.fullmatch(name) or name == SERVER:
        text = "a letter or digit, then letters, digits and . _ @ + -, at most 64"
        raise KeyNameError(f"{name[:80]!r} cannot be the name of a key; use {text}")
    if not all(projects):  # as an unset variable of a script gives
        raise KeyNameError("a project's name cannot be empty; leave it out for all projects")
    with service.store.write() as session:
        # First, as it makes others wait who would add a key of this name.
        audit.record(session, service, "key-created", f"{name} ({scope})")
        if _of_name(session, name):
            text = f"there is a key {name!r} already; rotate or revoke it, or take another name"
            raise KeyNameError(text)
        joined = projects_text(frozenset(projects) or None)
        return _add(session, service, name, scope, joined, expires)


def rotate_key(
    service: Service, name: str, overlap: timedelta, *, expires: timedelta | None = None
) -> NewKey:
    """Make another key of a name, with its scope and projects; those before work for `overlap`
    more, so that whoever uses them has time to change.

    Without `expires` it lasts as long as the one before did. Raises UnknownKeyError for a name
    without a key that works.
    """
    now_us = service.now_us()
    with service.store.write() as session:
        audit.record(session, service, "key-rotated", name)
        rows = _of_name(session, name)
        before = [row for row in rows if not _is_over(row, now_us)]
        if not before:
            raise _unknown(session, name)
        newest = before[-1]
        if expires is None and newest.expires_us is not None:
            expires = timedelta(microseconds=newest.expires_us - newest.created_us)
        for row in rows:
            if row in before:
                ends_us = now_us + span_us(overlap)
                row.expires_us = min(row.expires_us or ends_us, ends_us)
            else:
                session.delete(row)
        return _add(session, service, name, newest.scope, newest.projects, expires, newest.origin)


def _of_name(session: Session, name: str) -> Sequence[ApiKey]:
    """Return the keys of a name, the newest last."""
    statement = sa.select(ApiKey).where(ApiKey.name == name).order_by(ApiKey.id)
    return session.scalars(statement).all()


def _add(
    session: Session,
    service: Service,
    name: str,
    scope: str,
    projects: str | None,
    expires: timedelta | None,
    origin: str | None = None,
) -> NewKey:
    prefix, now_us = secrets.token_hex(4), service.now_us()
    key = f"{SHOWN}{prefix}_{new_token()}"
    row = ApiKey(
        name=name,
        prefix=prefix,
        origin=origin or prefix,
        digest=digest(key),
        scope=scope,
        projects=projects,
        created_us=now_us,
        created_by=service.caller.name,
        expires_us=None if expires is None else now_us + span_us(expires),
        used_us=None,
    )
    session.add(row)
    return NewKey(**asdict(_row(row, now_us)), key=key)


def list_keys(service: Service) -> KeysAnswer:
    """Return every key by name, expired ones too."""
    now_us = service.now_us()
    with service.store.read() as session:
        rows = session.scalars(sa.select(ApiKey).order_by(ApiKey.name)).all()
    return KeysAnswer(keys=[_row(row, now_us) for row in rows])


def has_keys(service: Service) -> bool:
    """Return whether anybody has made a key."""
    with service.store.read() as session:
        return session.scalar(sa.select(ApiKey.id).limit(1)) is not None


def revoke_key(service: Service, name: str, prefix: str | None = None) -> RevokedKey:
    """Delete every key of a name, or the one of a visible part alone; raises UnknownKeyError."""
    with service.store.write() as session:
        rows = [row for row in _of_name(session, name) if prefix in (None, _shown(row.prefix))]
        if not rows:
            raise _unknown(session, name)
        for row in rows:
            session.delete(row)
        only = f" ({prefix})" if prefix else ""
        audit.record(session, service, "key-revoked", f"{name}{only}")
    return RevokedKey(name=name, revoked_at=text_from_us(service.now_us()))


def _unknown(session: Session, name: str) -> UnknownKeyError:
    names = sa.select(ApiKey.name).distinct().order_by(ApiKey.name).limit(20)
    key_names = session.scalars(names).all()
    listed = f"; there are {', '.join(key_names)}" if key_names else "; there are none"
    return UnknownKeyError(f"there is no key {name[:80]!r}{listed}")


def authenticate(service: Service, key: str, address: str) -> Caller | None:
    """Return the caller with this key; None for one that is unknown, revoked or expired."""
    if key.startswith(HOME_PREFIX):
        own = home_key(service.config.home)
        if own is None or not hmac.compare_digest(digest(own), digest(key)):
            return None
        return Caller(SERVER, address, ADMIN, credential=SERVER)
    prefix = key.split("_", 2)[1] if key.count("_") >= 2 else ""
    with service.store.read() as session:
        row = session.scalars(sa.select(ApiKey).where(ApiKey.prefix == prefix)).one_or_none()
    matches = hmac.compare_digest(row.digest if row else "", digest(key))
    now_us = service.now_us()
    if row is None or not matches or _is_over(row, now_us):
        return None
    _note_use(service, row, now_us)
    return Caller(row.name, address, row.scope, projects_of(row.projects), _shown(row.origin))


def _note_use(service: Service, row: ApiKey, now_us: int) -> None:
    if row.used_us is not None and 0 <= now_us - row.used_us < _NOTE_USE_EVERY_US:
        return
    use = sa.update(ApiKey).where(ApiKey.id == row.id).values(used_us=now_us)
    service.store.note(lambda session: session.execute(use))


def _shown(prefix: str) -> str:
    return f"{SHOWN}{prefix}"


def _is_over(row: ApiKey, now_us: int) -> bool:
    return row.expires_us is not None and row.expires_us <= now_us


def _row(row: ApiKey, now_us: int) -> KeyRow:
    return KeyRow(
        name=row.name,
        prefix=_shown(row.prefix),
        scope=row.scope,
        projects=sorted(projects_of(row.projects) or ()),
        created_at=text_from_us(row.created_us),
        created_by=row.created_by,
        expires_at=None if row.expires_us is None else text_from_us(row.expires_us),
        last_used_at=None if row.used_us is None else text_from_us(row.used_us),
        expired=_is_over(row, now_us),
    )
