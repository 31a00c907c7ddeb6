"""Which samples are which job: rules of a TOML file over the labels of dcgm-exporter and Kepler."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from gramwatt.collectors.settings.config import PUE_MAX, close_matches
from gramwatt.collectors.settings.identity import bound_id

RENAMED = {
    "pod_name": "pod",
    "pod_namespace": "namespace",
    "pod_id": "pod_uid",
    "hpc_job": "slurm",
}
"""Kepler's labels and dcgm-exporter's of batch jobs, by the names that a mapping uses."""
HOSTS = ("hostname", "Hostname", "node_name", "node", "instance")
"""Labels that may name the node, the first that is there."""
PLACE = ("zone", "region", "pue")
KEYS = ("match", "by", "project", "name")


class MappingError(ValueError):
    """A mapping that cannot be used; the message says where and why."""


class Work(NamedTuple):
    """A job that samples belong to: its id, and what is known of it."""

    job_id: str
    project: str
    name: str
    tags: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """Samples whose labels match are jobs of a project, one for each value of the labels `by`."""

    match: Mapping[str, re.Pattern[str]]
    by: tuple[str, ...]
    project: str
    name: str

    def work(self, labels: Mapping[str, str]) -> Work | None:
        """Return the job of a sample; None where the rule does not hold for it."""
        if not all(pattern.fullmatch(labels.get(key, "")) for key, pattern in self.match.items()):
            return None
        values = [labels.get(key, "") for key in self.by]
        if not any(values):
            return None
        known = {key: labels.get(key, "") for key in _fields(self.project + self.name)}
        digest = sha256(repr(sorted(zip(self.by, values, strict=True))).encode()).hexdigest()[:16]
        tags = {key: value[:512] for key, value in zip(self.by, values, strict=True) if value}
        if "pod" in tags:  # as a tag it is the uid, by which one work of two sources is known
            tags["pod_name"] = tags.pop("pod")
        if uid := tags.pop("pod_uid", labels.get("pod_uid", "")):
            tags["pod"] = uid
        name = self.name.format_map(known) or " ".join(filter(None, values))
        project = self.project.format_map(known) or "default"
        job_id = bound_id(f"prom-{digest}", project)
        return Work(job_id, project, name[:512], tuple(sorted(tags.items())))


@dataclass(frozen=True, slots=True)
class JobMapping:
    """All rules in order, and where the nodes stand."""

    rules: tuple[Rule, ...]
    place: Mapping[str, Any]

    def work(self, labels: Mapping[str, str]) -> Work | None:
        """Return the job by the first rule that holds; None for samples of nobody."""
        found = (rule.work(labels) for rule in self.rules)
        return next((work for work in found if work), None)


def named(labels: Mapping[str, str]) -> dict[str, str]:
    """Return labels by the names that a mapping uses; a scrape's own names give way to those that
    the exporter wrote (`exported_pod`).
    """
    found = {key: value for key, value in labels.items() if not key.startswith("exported_")}
    given = {k.removeprefix("exported_"): v for k, v in labels.items() if k not in found}
    found |= given
    renamed = {RENAMED[key]: value for key, value in found.items() if key in RENAMED}
    host = next((found[key] for key in HOSTS if found.get(key)), "")
    return {**found, **renamed, "host": host.rpartition(":")[0] or host}


def read_mapping(path: Path) -> JobMapping:
    """Return the mapping of a TOML file; raises MappingError, or OSError where it is unreadable."""
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise MappingError(str(error)) from None
    for key in document:
        if key not in (*PLACE, "job"):
            raise MappingError(f"unknown key {key!r}{close_matches(key, (*PLACE, 'job'))}")
    pue = document.get("pue")
    if pue is not None and not (isinstance(pue, int | float) and 1 <= pue <= PUE_MAX):
        raise MappingError(f"pue is {pue!r}, not from 1 to {PUE_MAX:g}")
    rows = document.get("job")
    if not isinstance(rows, list) or not rows:
        raise MappingError("it has no [[job]]; write one rule at least, with `by` and `project`")
    rules = tuple(_rule(number, row) for number, row in enumerate(rows, 1))
    return JobMapping(rules, {key: document[key] for key in PLACE if key in document})


def _rule(number: int, row: Any) -> Rule:
    where = f"[[job]] number {number}"
    if not isinstance(row, dict):
        raise MappingError(f"{where} is no table")
    for key in row:
        if key not in KEYS:
            raise MappingError(f"{where}: unknown key {key!r}{close_matches(key, KEYS)}")
    by, match = row.get("by"), row.get("match", {})
    if not (isinstance(by, list) and by and all(isinstance(key, str) for key in by)):
        raise MappingError(f'{where}: by lists the labels that tell jobs apart, as ["pod"]')
    texts = row.get("project", "default"), row.get("name", "")
    if not (isinstance(match, dict) and all(isinstance(text, str) for text in texts)):
        raise MappingError(f"{where}: match is a table, project and name are texts")
    try:
        patterns = {key: re.compile(text) for key, text in match.items()}
        _fields("".join(texts))
    except (re.error, TypeError, ValueError) as error:
        raise MappingError(f"{where}: {error}") from None
    return Rule(patterns, tuple(by), *texts)


def _fields(text: str) -> list[str]:
    """Return the labels that a text names in braces; raises ValueError for anything else there."""
    names = re.findall(r"\{([^{}]*)\}", text)
    if any(not re.fullmatch(r"[A-Za-z_]\w*", name) for name in names):
        raise ValueError(f"{text!r} may name labels in braces only")
    if set("{}") & set(re.sub(r"\{[^{}]*\}", "", text)):
        raise ValueError(f"{text!r} has a brace alone")
    return names
