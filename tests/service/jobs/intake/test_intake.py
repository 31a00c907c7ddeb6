"""The compiled parser gives what the journal's own parser gives, whatever the line."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace
from typing import Any
from unittest.mock import ANY

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gramwatt.sci.base.errors import RecordError
from gramwatt.sci.journal.records import (
    INTERVAL_BEGINS,
    LINE_MAX_B,
    IntervalRecord,
    decode,
    encode,
    parse_line,
)
from gramwatt.service.jobs.intake.intervals import Intervals, read_intervals
from gramwatt.service.jobs.intake.lines import checked, parsed
from gramwatt.service.jobs.intake.tally import Tally
from tests.journals import Writer

NAMES = st.sampled_from(["v", "seq", "start", "profile", "a", 'q":', "x :", "ä", "\ud800", "\0"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


def outcome(parse: Any, line: bytes) -> Any:
    """The parsed line as text that tells 1 from 1.0 and true, or the code of its refusal."""
    try:
        return repr(parse(line))
    except RecordError as error:
        return error.code


@st.composite
def written(draw: st.DrawFn) -> bytes:
    """A JSON object as some writer might put it: names again, odd spaces, escapes or raw UTF-8."""
    pairs = draw(st.lists(st.tuples(NAMES, VALUES), max_size=5))
    colon = draw(st.sampled_from([":", ": ", " :", "\t:", "\r:\r"]))
    plain = draw(st.booleans())
    members = [
        json.dumps(name, ensure_ascii=plain) + colon + json.dumps(value, ensure_ascii=plain)
        for name, value in pairs
    ]
    return ("{" + ",".join(members) + "}").encode("utf-8", "surrogatepass")


@given(written() | st.binary(max_size=60))
@settings(max_examples=200, deadline=None)
@example(b'{"a":1,"a":2}')
@example(b'{"a" :1,"a" :2,"b":"\\":\\":"}')
@example(b'{"p":{"x":1,"x":2}}')
@example(b'{"p":[{"x":1,"x":2}]}')
@example(b'{"a":NaN}')
@example(b'{"a":1e400}')
@example(b'{"a":-0.0,"b":-0,"c":1e2,"d":123456789012345678901234567890}')
@example(b'\xef\xbb\xbf{"a":1}')
@example('{"a":1}'.encode("utf-16"))
@example(b'{"a":"\xff"}')
@example(b"[" * 100_000)
@example(b'{"a":' * 100_000)
@example(b'{"a":"' + b"x" * 2**20 + b'"}')
def test_both_parsers_agree(line: bytes) -> None:
    assert outcome(parsed, line) == outcome(parse_line, line)


LINE = {**json.loads(encode(Writer().interval(0, 60, 6000.0, profile={"memory_busy": 0.5})))}


def each_by_itself(lines: list[bytes]) -> tuple[Any, list[Any]]:
    """The intervals in lines, as the journal's own parser reads them, and what it refuses."""
    found, refused = Intervals(), []
    for number, line in enumerate(lines, start=1):
        try:
            record = decode(line)
        except RecordError as error:
            refused.append((number, error.code, error.message[:300]))
        else:
            if isinstance(record, IntervalRecord) and record.job_id == "job-1":
                found.append(record)
            else:
                refused.append((number, "wrong-job", ANY))
    return repr(found), refused


def all_at_once(lines: list[bytes]) -> tuple[Any, list[Any]]:
    """The same as uploads are read."""
    tally = Tally()
    batches = list(checked("job-1", lines, lambda record: None, tally))
    assert len(batches) <= 1
    found = batches[0].intervals if batches else Intervals()
    return repr(found), [(row["line"], row["code"], row["message"]) for row in tally.listed]


TEXTS = st.sampled_from(
    ["n1", "", "a b", "x" * 200, "2026-05-01T00:00:00Z", "2026-05-01T00:00:00.1234567Z", "GPU-1"]
    + ["2026-05-01T02:00:00+02:00", "2026-05-01", "1999-12-31T00:00:00Z", "2300-01-01T00:00:00Z"]
    + ["measured", "interval", 'x":1', "\0", "ä", "2026-05-03T00:00:00.000001Z"]
)
FIGURES = st.sampled_from(
    [0, 1, -1, 1.0, -0.0, 0.5, 1e4, 1e4 + 1, 1e6, -1e6, 1e18, 2e18, 1e300, 2**53, 10**30, True]
)
FIELDS = st.sampled_from([*(name for name in LINE), "utilisation_max", "power_max_w", "new"])
PROFILES = st.dictionaries(TEXTS, FIGURES | st.none() | TEXTS, max_size=3)


@st.composite
def interval_line(draw: st.DrawFn) -> bytes:
    """An interval's line with fields that are changed, left out, added, or named twice."""
    fields: list[tuple[str, Any]] = list(LINE.items())
    for _ in range(draw(st.integers(0, 2))):
        name = draw(FIELDS)
        if draw(st.booleans()):
            fields = [pair for pair in fields if pair[0] != name]
        if draw(st.booleans()):
            fields.append((name, draw(FIGURES | TEXTS | PROFILES | st.none())))
        elif draw(st.booleans()):
            value = draw(FIGURES | TEXTS | PROFILES | st.none())
            fields = [(key, value if key == name else old) for key, old in fields]
    plain = draw(st.booleans())
    colon = draw(st.sampled_from([":", ":", ": ", " :"]))
    members = [
        json.dumps(name)
        + (":" if name in ("v", "type") else colon)
        + json.dumps(value, ensure_ascii=plain, separators=(",", ":"))
        for name, value in fields
    ]
    return ("{" + ",".join(members) + "}").encode()


def line_of(**changed: Any) -> bytes:
    return json.dumps({**LINE, **changed}, separators=(",", ":")).encode()


@given(
    st.lists(interval_line() | st.builds(line_of, seq=st.integers(1, 9)), min_size=1, max_size=4)
)
@settings(max_examples=250, deadline=None)
@example([line_of(v=1.0)])
@example([line_of(seq=1.0)])
@example([line_of(seq=True)])
@example([line_of() + line_of(), line_of()])
@example([line_of() + b"1", line_of()])
@example([line_of()[:-1], line_of()])
@example([line_of(profile={})[:-2], line_of()])
@example([line_of(job_id="job-2"), line_of()])
@example([line_of(energy_j=1e300), line_of()])
@example([line_of(profile={}), line_of(profile=None), line_of()])
@example([line_of(), line_of() + b" " * LINE_MAX_B])
@example([line_of(profile={"a\n b": 0.5, '"': 1, "\\": 2}), line_of()])
def test_intervals_are_read_together_as_each_would_be(lines: list[bytes]) -> None:
    assert all_at_once(lines) == each_by_itself(lines)


def test_what_meters_write_of_intervals_takes_the_fast_way() -> None:
    meter = Writer()
    profile = {"memory_busy": 0.5}
    records = [
        meter.interval(0, 60, 6000.0),
        meter.interval(60, 120, 0.0, "cpu", kind="estimated", utilisation_mean=0.5),
        meter.interval(0, 60, 6e3, "ram", memory_peak_b=1e9, power_max_w=100.0, profile=profile),
    ]
    lines = [encode(record).encode() for record in records]
    assert all(line.startswith(INTERVAL_BEGINS) for line in lines)
    columns = read_intervals("job-1", b"\n".join(lines))
    assert columns is not None
    start_us = 1_777_622_400_000_000  # date -u -d 2026-05-01T08:00:00Z +%s
    assert dict(zip(Intervals.__slots__, map(list, columns), strict=True)) == {
        "node": ["n-1"] * 3,
        "writer": ["w1"] * 3,
        "seq": [1, 2, 3],
        "device_id": ["GPU-1", "cpu", "ram"],
        "start_us": [start_us, start_us + 60_000_000, start_us],
        "end_us": [start_us + 60_000_000, start_us + 120_000_000, start_us + 60_000_000],
        "energy_j": [6000.0, 0.0, 6000.0],
        "kind": ["measured", "estimated", "measured"],
        "utilisation_mean": [None, 0.5, None],
        "utilisation_max": [None] * 3,
        "memory_peak_b": [None, None, 1e9],
        "power_max_w": [None, None, 100.0],
        "profile": [None, None, '{"memory_busy":0.5}'],
        "extra": [None] * 3,
    }


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (json.dumps(LINE)[:-1] + ',"energy_j":1}', "repeated-field"),
        (json.dumps(LINE).replace("6000.0", "NaN"), "bad-json"),
        (json.dumps(LINE).replace("6000.0", "1e300"), "impossible-energy"),
        (json.dumps(LINE).replace("6000.0", "1e400"), "bad-field"),
        (json.dumps(LINE).replace("6000.0", "[" * 100_000), "bad-json"),
        (json.dumps({**LINE, "v": 2}), "newer-version"),
        (json.dumps({**LINE, "new": "x" * 2**20}), "line-too-long"),
        (json.dumps({**LINE, "new": json.loads("[" * 20 + "]" * 20)}), "bad-field"),
    ],
)
def test_a_hostile_line_is_refused_with_a_code(text: str, code: str) -> None:
    with pytest.raises(RecordError) as refused:
        decode(text)
    assert refused.value.code == code


def test_what_a_newer_meter_adds_survives() -> None:
    new = {"cooling": {"fan": [1, 2.5, None, True]}, "extra": 5, "ä": "text"}
    sent = {**LINE, **new, "profile": {"memory_busy": 0.5, "bus_busy": 0.25}}
    record = decode(json.dumps(sent))
    assert record.extra == new
    assert json.loads(encode(record)) == sent
    assert decode(json.dumps(LINE)) == replace(
        record,
        extra={},
        profile={"memory_busy": 0.5},
    )


def test_names_that_are_too_long_are_refused_and_not_remembered() -> None:
    lines = [json.dumps({**LINE, "job_id": f"{n}{'x' * 100_000}"}).encode() for n in range(100)]
    fast = [line.replace(b": ", b":").replace(b", ", b",") for line in lines]
    tracemalloc.start()
    for line in [*lines, *fast]:
        with pytest.raises(RecordError, match="identifier"):
            decode(line)
        assert read_intervals("job-1", line) is None
    kept_b, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept_b < 1_000_000
