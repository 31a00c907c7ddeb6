"""Which project the jobs of a namespace or an account belong to, by the setting GRAMWATT_PROJECTS.

Its text is a list such as `account:bio=genomics,namespace:vision=vision`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

PROJECTS = "GRAMWATT_PROJECTS"
KINDS = ("account", "namespace")


def project_of_account(environ: Mapping[str, str], kind: str, name: str | None) -> str | None:
    """Return the project of an account or a namespace (`kind`); None where the setting has none."""
    return projects(environ.get(PROJECTS, "")).get(f"{kind}:{name}")


def project_of_tags(environ: Mapping[str, str], tags: Mapping[str, str]) -> str | None:
    """Return the project of the Slurm account or the namespace among a job's tags; else None."""
    found = (
        project_of_account(environ, kind, tags.get(tag))
        for kind, tag in (("account", "slurm_account"), ("namespace", "namespace"))
    )
    return next((project for project in found if project), None)


def projects(text: str) -> dict[str, str]:
    """Return the project of each `account:NAME` and `namespace:NAME`; entries of another form are
    left out.
    """
    entries = (entry.strip().partition("=") for entry in text.split(","))
    return {
        source: project
        for source, _, project in entries
        if project and source.partition(":")[0] in KINDS
    }
