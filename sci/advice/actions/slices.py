"""MIG slices as present hardware or as target: memory, and time where that was measured.

There is no verdict: what a slice saves depends on what runs on the rest of its board.
"""

from __future__ import annotations

from dataclasses import replace

from gramwatt.sci.advice.constraints.memory import fit_notes, shortfall
from gramwatt.sci.advice.constraints.slices import Slice, no_ratio
from gramwatt.sci.advice.constraints.support import refusals
from gramwatt.sci.advice.documents import Suggestion
from gramwatt.sci.advice.prediction.evidence import evidence
from gramwatt.sci.advice.prediction.predict import predict
from gramwatt.sci.advice.prediction.ratio_range import ratio_of, unchanged
from gramwatt.sci.advice.work import Work
from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.catalog.catalog import Hardware

MEASURED = ("batch-inference", "recsys")
"""Classes that were measured on slices (MLPerf Inference, full load)."""


def compare_slice(work: Work, target: Slice) -> Suggestion:
    """A slice as target: whether it holds the job, and its time."""
    board = replace(target.board, id=target.id, memory_gb=target.memory_gib)
    if target.id == work.present_id:
        same = unchanged("the present slice over itself")
        return Suggestion(
            action="change-hardware",
            target=target.id,
            count=work.count,
            verdict="no-reliable-difference",
            basis="direct",
            time_ratio=same,
            energy_ratio=same,
            carbon_ratio=same,
            operating_point="as now",
            reasons=["this is the present slice"],
        )
    reasons = refusals(work.request, target.board, work.offered)
    reasons += shortfall(work.need, board, work.count)
    judged = Suggestion(
        action="change-hardware",
        target=target.id,
        count=work.count,
        verdict="not-feasible" if reasons else "unknown",
        basis="rule" if reasons else "none",
        reasons=reasons,
        sources=(f"catalog {target.board.id} ({', '.join(target.board.sources.all)})",),
    )
    if reasons:
        return judged
    if work.part is None or work.misfit:
        return replace(judged, reasons=fit_notes(work.need, board, work.count))
    time = slice_time(work, target.board, target)
    reasons = [
        no_ratio(target.board.id, target.name),
        *fit_notes(work.need, board, work.count),
        _keeps_up(work, target),
        "its share of idle power and making is small only with other jobs on the board: see share",
    ]
    return _timed(replace(judged, reasons=[text for text in reasons if text]), time)


def from_slice(work: Work, now: Slice, target: Hardware, unjudged: Suggestion) -> Suggestion:
    """A whole part, for a job that runs on a slice: its time."""
    text = no_ratio(now.board.id, now.name)
    if target.id == now.board.id:
        text = f"this is the board of the present slice. {text}"
    hint = (
        "For the whole board give its id, with power, memory and busy share of all that runs on it"
    )
    time = slice_time(work, target, None)
    return _timed(replace(unjudged, reasons=[f"{text}. {hint}", *unjudged.reasons]), time)


def _timed(judged: Suggestion, time: Quantity | None) -> Suggestion:
    if time is None:
        return judged
    return replace(judged, time_ratio=time, basis="class-model", operating_point="full load")


def slice_time(work: Work, board: Hardware, target: Slice | None) -> Quantity | None:
    """Time ratio to a board or a slice of it; None where the slices' speed was not measured."""
    now = work.part
    if now is None or work.classified.name not in MEASURED or work.pace.waits:
        return None
    if work.request.precision == "fp64":
        return None  # of which no models were measured
    inputs: dict[str, Quantity] = {"board": unchanged("the same board")}
    if board.id != now.id:
        whole = predict(work.described, now, board, work.own, work.devices).time
        if whole is None:
            return None
        inputs["board"] = whole
    for name, piece in (("now", work.slice), ("then", target)):
        if piece is not None:
            found = evidence(f"slice:{piece.board.id}:{piece.name}", "time")
            if found is None:
                return None
            inputs[name] = found.ratio()
    steady = dict.fromkeys(("now", "then"), 1.0)
    return ratio_of(
        lambda at: at["board"] * {**steady, **at}["then"] / {**steady, **at}["now"], inputs
    )


def _keeps_up(work: Work, target: Slice) -> str:
    """Whether the slice is enough for the present busy share of the same board."""
    busy, now = work.request.utilisation, work.part
    if busy is None or now is None or work.slice or now.id != target.board.id:
        return ""
    enough = "enough for" if busy <= target.share else "less than"
    return f"it has {target.share:.0%} of the processors: {enough} the busy share of {busy:.0%}"
