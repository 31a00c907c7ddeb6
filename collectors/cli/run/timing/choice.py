"""When a command runs: at once, in the best hours, or in parts."""

from __future__ import annotations

from dataclasses import dataclass

from gramwatt.collectors.cli.run.measure import UsageError
from gramwatt.collectors.cli.run.timing import pausing
from gramwatt.collectors.cli.run.timing.greenest import Wish, wait_for_greenest, wish
from gramwatt.collectors.cli.run.timing.queries import NoAnswer
from gramwatt.collectors.client.messages import print_message
from gramwatt.collectors.common.config import Config


@dataclass(frozen=True, slots=True)
class Choice:
    """The options of `gramwatt run`; `pause_above` [gCO2e/kWh], `hours` the expected length."""

    when_greenest: bool = False
    pause_above: float | None = None
    deadline: str | None = None
    hours: float | None = None

    def checked(self) -> Choice:
        """The same; raises UsageError for options that do not go together."""
        if not self.when_greenest and self.pause_above is None:
            raise UsageError(
                "--deadline and --expected-hours belong to --when-greenest or --pause-above"
            )
        self.wish()
        if self.pause_above is not None and not 0 < self.pause_above <= pausing.MOST:
            text = f"gCO2e/kWh, more than 0 and at most {pausing.MOST:g}"
            raise UsageError(f"--pause-above {self.pause_above:g}: {text}")
        return self

    def wish(self) -> Wish | None:
        """Deadline and length; None where nothing is asked of them; raises UsageError."""
        if not self.when_greenest and self.deadline is None:
            return None
        return wish(self.deadline, self.hours)


def timed(
    choice: Choice, config: Config, name: str, job: str, *, strict: bool
) -> tuple[dict[str, str], pausing.Pauses | None]:
    """Wait for the job's window if asked to; tags that record it, and what pauses the command.

    Raises UsageError, Left, and with `strict` NoAnswer for an intensity that is not known.
    """
    wished = choice.wish()
    tags: dict[str, str] = {}
    if choice.when_greenest and wished is not None:
        tags = wait_for_greenest(config, name, job, wished)
    if choice.pause_above is None:
        return tags, None
    try:
        rule = pausing.limits(config, name, choice.pause_above, wished)
        pauses = pausing.Pauses(config, rule, job)
        pauses.prepare()
    except NoAnswer as error:
        if strict:
            raise
        print_message(f"--pause-above: {error}; the command is not paused")
        return tags, None
    return {**tags, "pause_above_g_per_kwh": f"{choice.pause_above:g}"}, pauses
