"""Stored documents without a name: of an erased project, or of an erased person."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gramwatt.service.access.erased import DELETED_PROJECT
from gramwatt.service.store.documents import to_text

_WORD = re.compile(r"[\w.+@-]+")
_EMPTY: dict[str, Any] = {"owner": None, "tags": {}, "links": {}, "reason": "", "excluded": ""}
"""What people wrote about a job, in whichever row of a document it stands."""
PEOPLE = frozenset(
    (
        *("by", "person", "owner", "user"),
        *("deleted_by", "imported_by", "set_by"),
    )
)
"""Fields of documents and tags of jobs that name a person."""
USER_TAG = "tags.user"
"""The field of a correction that declares whose job it is."""


def redacted(text: str, change: Callable[[Any], Any]) -> str:
    """Return a JSON document with the change; the same text where it changes nothing."""
    before = json.loads(text)
    after = change(before)
    return text if after == before else to_text(after)


@dataclass(frozen=True)
class WithoutProject:
    """Takes a project out of a document, with the names of its jobs (their aliases by id) and
    models; with `only_name` the project's name alone, out of a job that was moved to another.
    """

    project: str
    jobs: Mapping[str, str] = field(default_factory=dict)
    models: frozenset[str] = frozenset()
    only_name: bool = False

    def __call__(self, node: Any) -> Any:
        """Return the document without the project; rows of other projects stay as they are."""
        if isinstance(node, list):
            return [self(one) for one in node]
        if isinstance(node, str):
            return self._in_text(node)
        if not isinstance(node, dict):
            return node
        project = node.get("project")
        if isinstance(project, str) and project != self.project:
            return node
        made = {name: self(value) for name, value in node.items()}
        if project == self.project:
            made["project"] = DELETED_PROJECT
            if not self.only_name:
                made |= {name: value for name, value in _EMPTY.items() if made.get(name)}
                made |= {"name": made.get("job_id", DELETED_PROJECT)} if "name" in made else {}
        if isinstance(projects := made.get("projects"), list):
            made["projects"] = [DELETED_PROJECT if p == self.project else p for p in projects]
        if made.get("field") == "project":
            named = {name: DELETED_PROJECT for name in ("value", "old")}
            made |= {name: text for name, text in named.items() if made.get(name) == self.project}
        return made

    def _in_text(self, text: str) -> str:
        for model in self.models:
            if model in text:
                text = _whole(model).sub(DELETED_PROJECT, text)
        return _WORD.sub(lambda found: self.jobs.get(found[0], found[0]), text)


@dataclass(frozen=True)
class WithoutPerson:
    """Puts an alias in the place of a person's name: where a field names people, in the value of
    a corrected tag `user`, and in reasons.
    """

    name: str
    alias: str

    def __call__(self, node: Any) -> Any:
        """Return the document without the name."""
        if isinstance(node, list):
            return [self(one) for one in node]
        if not isinstance(node, dict):
            return node
        names = PEOPLE | {"value", "old"} if node.get("field") == USER_TAG else PEOPLE
        made = {name: self(value) for name, value in node.items()}
        made |= {name: self.alias for name in names if made.get(name) == self.name}
        if isinstance(made.get("reason"), str):
            made["reason"] = self.in_text(made["reason"])
        return made

    def in_text(self, text: str) -> str:
        """Return a sentence without the name."""
        return _whole(self.name).sub(self.alias, text)


def _whole(name: str) -> re.Pattern[str]:
    """Return what finds a name that is no part of a longer one."""
    return re.compile(rf"(?<![\w@]){re.escape(name)}(?![\w@])")
