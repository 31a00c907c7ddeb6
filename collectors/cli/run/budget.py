"""`gramwatt run --budget`: ask for the project's budget before the command starts, and briefly.

A budget that is not known in time never keeps a command from running, unless `--strict` is given.
"""

from __future__ import annotations

from typing import Any

from gramwatt.collectors.cli.run.questions import NoAnswer, Questions
from gramwatt.collectors.tracking.messages import print_message

SERVER_LIMIT_S, STORE_LIMIT_S = 1.0, 10.0
"""How long the answer of a server may take, and that of the store [s]: opening it takes 0.5 s of
processor time, and several times as long beside busy neighbours."""


def allows(questions: Questions, *, strict: bool) -> bool:
    """Tell whether the command may start: not when the budget is spent. Prints what is known."""
    config = questions.config
    try:
        row = questions.budget(SERVER_LIMIT_S if config.server else STORE_LIMIT_S)["budget"]
        if row is None:
            raise NoAnswer(f"no budget is set (`gramwatt budget set {config.project} KG` sets one)")
        status, text = str(row["status"]), _text(row)
    except NoAnswer as error:
        reason = str(error)
    except Exception as error:  # an answer of another form
        reason = f"the answer cannot be read ({type(error).__name__})"
    else:
        if status == "spent":
            print_message(f"budget: {text}; the command is not started")
            return False
        if status != "within":
            print_message(f"budget: {text}")
        return True
    start = "the command is not started (--strict)" if strict else "the command starts"
    print_message(f"budget of project {config.project!r} is not known: {reason}; {start}")
    return not strict


def _text(row: dict[str, Any]) -> str:
    from gramwatt.sci.base import formatting

    if "spent_kg" not in row:  # a server tells a key of a job no more than the status
        limit = f"{formatting.all_digits(row['limit_kg'])} kg CO2e in {row['for_month']}"
        return f"project {row['project']!r} has a budget of {limit}: {row['status']}"
    spent = formatting.text(formatting.grams(row["spent_kg"]))
    share = f", {row['spent_share']:.0%}" if row["spent_share"] is not None else ""
    limit = f"of {formatting.all_digits(row['limit_kg'])} kg CO2e in {row['for_month']}"
    unknown = (
        f", and {formatting.jobs_text(row['jobs_unknown'])} not known"
        if row["jobs_unknown"]
        else ""
    )
    text = f"project {row['project']!r} has spent {spent} {limit}{share}{unknown}"
    return formatting.ascii_units(text)
