"""The aliases of people: scores and records have the alias, so that a name can be erased."""

import json
import re
import secrets
from collections.abc import Iterable

import sqlalchemy as sa
from msgspec.structs import replace
from sqlalchemy.orm import Mapped, Session, mapped_column

from gramwatt.sci.records.records import AnyRecord, JobRecord
from gramwatt.service.store.base import Base, Label, Word
from gramwatt.service.store.columns import upsert

USER = "user"
"""The tag that says whose job it is."""
_ALIAS = re.compile(r"person-[0-9a-f]{12}")


class Person(Base):
    """The alias of a person and the name, null once it was erased."""

    __tablename__ = "people"

    alias: Mapped[Word] = mapped_column(primary_key=True)
    name: Mapped[Label | None] = mapped_column(unique=True)


def known_alias(session: Session, name: str) -> str | None:
    """Return the alias of a name; None for one that nothing has."""
    return session.scalar(sa.select(Person.alias).where(Person.name == name))


def alias_of(session: Session, name: str) -> str:
    """Return the alias of a name, a new one where nothing has that name; an alias is its own."""
    if _ALIAS.fullmatch(name):
        return name
    if (alias := known_alias(session, name)) is None:
        upsert(session, Person, [{"alias": f"person-{secrets.token_hex(6)}", "name": name}])
        alias = known_alias(session, name)  # of two that add it at once, one does
    assert alias is not None
    return alias


def with_aliases(session: Session, records: Iterable[AnyRecord]) -> list[AnyRecord]:
    """Return records in which no tag `user` is a name."""
    return [
        replace(record, tags={**record.tags, USER: alias_of(session, record.tags[USER])})
        if isinstance(record, JobRecord) and USER in record.tags
        else record
        for record in records
    ]


def with_names(session: Session, text: str) -> str:
    """Return a JSON text with names for aliases; the alias stays where its name was erased."""
    aliases = set(_ALIAS.findall(text))
    if not aliases:
        return text
    statement = sa.select(Person.alias, Person.name).where(Person.alias.in_(sorted(aliases)))
    names = {alias: json.dumps(name)[1:-1] for alias, name in session.execute(statement) if name}
    return _ALIAS.sub(lambda alias: names.get(alias[0], alias[0]), text)
