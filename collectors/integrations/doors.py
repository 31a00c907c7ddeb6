"""What other tools load by entry point: nothing of theirs or ours until a variable asks for it."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class MlflowContext:
    """MLflow's run context provider: the job's id becomes a tag of every run that begins in it."""

    def in_context(self) -> bool:
        """Return whether GRAMWATT_MLFLOW asks for the tag and a job runs."""
        return _asks("GRAMWATT_MLFLOW") and bool(os.environ.get("GRAMWATT_JOB_ID"))

    def tags(self) -> dict[str, str]:
        """Return the tag that leads from the run to the job, and by a search back."""
        from gramwatt.collectors.track.trackers import JOB_TAG

        return {JOB_TAG: os.environ["GRAMWATT_JOB_ID"]}


def lightning_callbacks() -> list[Any]:
    """Return what Lightning adds to every Trainer: nothing unless GRAMWATT_LIGHTNING asks for it.

    Nothing either where the import fails: the training goes on without.
    """
    if not _asks("GRAMWATT_LIGHTNING"):
        return []
    try:
        from gramwatt.collectors.integrations.lightning import GramwattCallback

        return [GramwattCallback()]
    except Exception as error:
        from gramwatt.collectors.track.messages import print_message

        print_message(f"GRAMWATT_LIGHTNING=1 has no effect: {error!r}")
        return []


def _asks(name: str) -> bool:
    if not os.environ.get(name):
        return False
    from gramwatt.collectors.settings.platform import is_set

    return is_set(name)
