"""Sessions that see the jobs of some projects only.

The restriction is added to every statement of the session, in whatever module, so that no query can
forget it: rows of a table with a project by that, and rows of tables that belong to such a row,
however far, by the row they belong to. Other tables are not restricted.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import event
from sqlalchemy.orm import ORMExecuteState, Session, with_loader_criteria

from gramwatt.service.store.base import PROJECTS, Base


class ForeignProjectError(Exception):
    """A project that the caller may not write; `project` is its name."""

    def __init__(self, project: object) -> None:
        self.project = str(project)
        super().__init__(f"not a project of this key: {self.project!r}")


class RestrictedSession(Session):
    """A session that sees these projects only."""

    def __init__(self, projects: frozenset[str], *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.info[PROJECTS] = projects


_CRITERIA = with_loader_criteria(
    Base, lambda model: model.of_projects(), include_aliases=True, track_closure_variables=False
)
"""One option for all models: one for each takes longer than many a statement itself."""


@event.listens_for(RestrictedSession, "do_orm_execute")
def _restrict(state: ORMExecuteState) -> None:
    if state.is_select and not state.is_orm_statement:
        raise TypeError("a select of plain tables cannot be restricted; select from the models")
    if state.is_insert:
        return
    state.statement = state.statement.options(_CRITERIA)
    projects = sorted(state.session.info[PROJECTS])
    state.parameters = {**(state.parameters or {}), PROJECTS: projects}  # type: ignore[dict-item]
