"""Sums over runs of a model out of the parts of their months; no document is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from gramwatt.sci.analysis.model_totals import Method, RunHead, RunTerms
from gramwatt.service.months.sums.arrays import read_parts
from gramwatt.service.months.sums.part import PartRow
from gramwatt.service.months.sums.totals import by_job


class RunSums:
    """The parts of runs in all their months, and sums over any of these runs."""

    def __init__(self, portions: Iterable[Sequence[PartRow]]) -> None:
        self._parts = read_parts(portions)
        methods = [(of_job["method"][2], of_job["method"][3]) for of_job in self._parts.attributes]
        self._methods: dict[str, Method] = {
            job_id: methods[number]
            for job_id, number in zip(self._parts.ids, self._parts.attributes_of, strict=True)
        }

    def method(self, run: RunHead) -> Method:
        """Signal and basis of the intensity that a run, which has a part, is scored with."""
        return self._methods[run.job_id]

    def terms(self, runs: Sequence[RunHead]) -> RunTerms:
        """Return the terms over these runs, each the sum of its months."""
        wanted = {run.job_id for run in runs}
        jobs = np.flatnonzero([job_id in wanted for job_id in self._parts.ids])
        totals = by_job(self._parts, jobs, np.zeros_like(jobs), 1)
        return RunTerms(*(term.quantity(0) for term in (*totals.terms, totals.total_g)))
