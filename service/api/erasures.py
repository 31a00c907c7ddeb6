"""Deleting a project and erasing a person's name; for admins of every project."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from gramwatt.service.api.access import Access
from gramwatt.service.api.routing import Routes
from gramwatt.service.api.support import caller, service
from gramwatt.service.common.requests import Text
from gramwatt.service.erasure import DeletedProject, ErasedPerson, erase_person, erase_project

routes = Routes("erasures")


class ProjectPath(Struct, frozen=True, kw_only=True):
    """The project in an address."""

    project: Text


class PersonPath(Struct, frozen=True, kw_only=True):
    """The name of a person in an address."""

    name: Text


class PersonQuery(Struct, frozen=True, kw_only=True):
    """What goes with the name."""

    jobs: Annotated[
        bool, Meta(description="Delete the jobs first whose tag `user` is the name.")
    ] = False


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
