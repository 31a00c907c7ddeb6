"""Which projects a caller may write and read."""

from __future__ import annotations

from gramwatt.service.common.errors import NoDataError, ProjectNeededError
from gramwatt.service.container import Service
from gramwatt.service.store.restriction import ForeignProjectError


def require_own(service: Service, project: str) -> None:
    """Raise ForeignProjectError for a project that the caller may not write."""
    if service.caller.projects is not None and project not in service.caller.projects:
        raise ForeignProjectError(project)


def one_project(service: Service, project: str | None, month: str) -> str | None:
    """Return the project of a month's sums: the one named, else the caller's, None for every
    project.

    Raises NoDataError for a project that the caller does not see, and ProjectNeededError when the
    caller has several and names none.
    """
    projects = service.caller.projects
    if projects is None or project in projects:
        return project
    if project is not None:
        raise NoDataError(f"no job of project {project!r} in {month}")
    if len(projects) > 1:
        raise ProjectNeededError(f"say which project: {', '.join(sorted(projects))}")
    return min(projects)
