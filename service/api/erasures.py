"""Deleting a project and erasing a person's name; for admins of every project."""

from __future__ import annotations

from pydantic import Field

from gramwatt.service.api.access import Access
from gramwatt.service.api.routing import Routes, Strict
from gramwatt.service.api.support import Text, caller, service
from gramwatt.service.erasure import DeletedProject, ErasedPerson, erase_person, erase_project

routes = Routes("erasures")


class ProjectPath(Strict):
    """The project in an address."""

    project: Text


class PersonPath(Strict):
    """The name of a person in an address."""

    name: Text


class PersonQuery(Strict):
    """What goes with the name."""

    jobs: bool = Field(False, description="Delete the jobs first whose tag `user` is the name.")


@routes.delete("/v1/projects/<path:project>", "unknown-project", access=Access.ADMIN_ALL)
def delete_project(path: ProjectPath) -> DeletedProject:
    """Delete a project for good: jobs, reports, budgets and its own keys."""
    return erase_project(service(), path.project, by=caller().name)


@routes.delete("/v1/people/<path:name>", "unknown-person", access=Access.ADMIN_ALL)
def delete_person(path: PersonPath, query: PersonQuery) -> ErasedPerson:
    """Blank a person's name: an alias stands for it, as the tag `user` of jobs and as who did
    something.
    """
    return erase_person(service(), path.name, by=caller().name, jobs=query.jobs)
