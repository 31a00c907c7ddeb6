"""Sessions that see the jobs of some projects only.

The restriction is added to every statement of the session, in whatever module, so that no query can
forget it: rows of a table with a project by that, and rows of tables that belong to such a row,
however far, by the row they belong to. Other tables are not restricted.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.orm import ORMExecuteState, Session, with_loader_criteria

from gramwatt.service.store.models import Base

PROJECT = "project"
_PROJECTS = "gramwatt_projects"
"""Where a session keeps its projects, and the parameter by which each statement gets them: one set
of criteria serves all, so that nothing is kept by what callers name.
"""


class ForeignProjectError(Exception):
    """A project that the caller may not write; `project` is its name."""

    def __init__(self, project: object) -> None:
        self.project = str(project)
        super().__init__(f"not a project of this key: {self.project!r}")


class RestrictedSession(Session):
    """A session that sees these projects only."""

    def __init__(self, projects: frozenset[str], *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.info[_PROJECTS] = projects


@cache
def restricted_tables() -> dict[type[Base], tuple[str, ...]]:
    """Return the way to the project of each restricted model: columns to follow, the last is
    `project`.
    """
    models = [mapper.class_ for mapper in Base.registry.mappers]
    return {model: way for model in models if (way := _way(model.__table__))}


def _way(table: Any) -> tuple[str, ...]:
    if PROJECT in table.c:
        return (PROJECT,)
    for key in table.foreign_keys:
        if further := _way(key.column.table):
            return (key.parent.name, *further)
    return ()


def _is_of(columns: Any, way: tuple[str, ...]) -> Any:
    """Return the condition that a row is of the session's projects; correlated, so that its own
    index leads.
    """
    column = columns[way[0]]
    if len(way) == 1:
        return column.in_(sa.bindparam(_PROJECTS, expanding=True))
    (key,) = column.foreign_keys
    parent = key.column.table.alias()
    found = sa.select(sa.literal(1)).select_from(parent)
    return found.where(parent.c[key.column.name] == column, _is_of(parent.c, way[1:])).exists()


@cache
def _criteria() -> tuple[Any, ...]:
    return tuple(
        with_loader_criteria(model, _is_of(model.__table__.c, way), include_aliases=True)
        for model, way in restricted_tables().items()
    )


@event.listens_for(RestrictedSession, "do_orm_execute")
def _restrict(state: ORMExecuteState) -> None:
    if state.is_select and not state.is_orm_statement:
        raise TypeError("a select of plain tables cannot be restricted; select from the models")
    if state.is_insert:
        return
    state.statement = state.statement.options(*_criteria())
    projects = sorted(state.session.info[_PROJECTS])
    state.parameters = {**(state.parameters or {}), _PROJECTS: projects}  # type: ignore[dict-item]
