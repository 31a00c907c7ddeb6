"""The suggestion to run at another time, from a plan."""

from __future__ import annotations

from gramwatt.sci.advice.actions.texts import EFFORTS
from gramwatt.sci.advice.documents import Suggestion, SuggestionDoc, Verdict
from gramwatt.sci.base.formatting import minute_text
from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.planning.plan import PlanDoc


def shift_time(
    plan: PlanDoc, regret: Quantity | None, count: int, operational: float = 1.0
) -> SuggestionDoc | None:
    """Shift the job as a plan says; None where nothing is known of the zone's hours.

    `operational` is the part of the job's carbon that the grid makes: the rest stays.
    """
    saving = plan["saving_ratio"]
    if saving is None or plan["method"] == "annual":
        return None
    ratio = Quantity.from_doc(saving).scaled(operational).complement("ratio")
    lower = plan["reliable"] and ratio.high < 1
    verdict: Verdict = "lower" if lower else "no-reliable-difference"
    slot = plan["plan"][0]
    span = f"{minute_text(slot['start'])} to {minute_text(slot['end'])} UTC in {slot['zone']}"
    reasons = [f"the best hours of the coming ones are {span}" if lower else _why(plan)]
    if regret is not None:
        reasons.append(_regret(regret))
    found = Suggestion(
        action="shift-time",
        verdict=verdict,
        basis="calibrated",
        count=count,
        time_ratio=Quantity.exact(1.0, "ratio", "estimated", "the same run, later"),
        energy_ratio=Quantity.exact(1.0, "ratio", "estimated", "the same run, later"),
        carbon_ratio=ratio,
        effort=EFFORTS["shift-time"],
        operating_point=f"a day of slack, by {plan['method']}",
        reasons=reasons,
        sources=[saving["source"]],
    )
    return found.to_doc()


def _why(plan: PlanDoc) -> str:
    said = [row["message"] for row in plan["notices"] if row["code"] == "no-reliable-gain"]
    return said[0] if said else "the saving is within the error of the forecast"


def _regret(regret: Quantity) -> str:
    low, value, high = (100 * end for end in (regret.low, regret.value, regret.high))
    return (
        f"such plans of the past emitted {value:.1f} % ({low:.1f} to {high:.1f} %) more than the "
        "best hours in hindsight"
    )
