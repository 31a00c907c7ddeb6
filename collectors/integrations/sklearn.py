"""scikit-learn's callbacks (1.9 and later), for the estimators that have them.

    search = GridSearchCV(LogisticRegression(), grid).set_callbacks(GramwattCallback())

Counts `fit` and `sample`, the rows that each fit took, also in the workers of joblib. Estimators
without callbacks are measured by `gramwatt run` or `@track`.
"""

from __future__ import annotations

from typing import Any

from gramwatt.collectors.integrations.tracked_run import TrackedRun, batch_size, harmless
from gramwatt.collectors.track.track import Job


class GramwattCallback:
    """Measures the outermost `fit()` as one job; `options` are those of `track`."""

    max_propagation_depth = None  # to estimators inside estimators, however deep

    def __init__(self, **options: Any) -> None:
        self._run = TrackedRun(**{"kind": "training", "unit": "sample", **options})

    @property
    def job(self) -> Job | None:
        """The job of the last fit; None before the first."""
        return self._run.job

    @harmless
    def setup(self, estimator: Any, context: Any) -> None:
        """Begin the job."""
        self._run.begin()

    @harmless
    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Do nothing: scikit-learn asks for this method."""

    @harmless
    def on_fit_task_end(
        self,
        estimator: Any,
        context: Any,
        *,
        X: Any = None,  # noqa: N803 - scikit-learn passes it by this name
    ) -> None:
        """Count a fit of what predicts, or stands alone, unless an inner estimator counts it."""
        counts = hasattr(estimator, "predict") or context.parent is None
        inner_counts = hasattr(_inner(estimator), "set_callbacks")
        if context.task_name == "fit" and counts and not inner_counts:
            self._run.count(fit=1, sample=batch_size(X) if X is not None else 0)

    @harmless
    def teardown(self, estimator: Any, context: Any) -> None:
        """End the job; scikit-learn asks for it after an exception too."""
        self._run.end()


def _inner(estimator: Any) -> Any:
    """Return the estimator that this one fits: a search's own, or the last step of a pipeline."""
    steps = getattr(estimator, "steps", None)
    return steps[-1][1] if steps else getattr(estimator, "estimator", None)
