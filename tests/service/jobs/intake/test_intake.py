"""Journal lines of meters, of newer ones and of nobody: what is read of them."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from msgspec.structs import replace

from gramwatt.sci.figures.errors import RecordError
from gramwatt.sci.records.records import decode, encode
from tests.journals import Writer

LINE = {**json.loads(encode(Writer().interval(0, 60, 6000.0, profile={"memory_busy": 0.5})))}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (json.dumps(LINE).replace("6000.0", "NaN"), "bad-json"),
        (json.dumps(LINE).replace("6000.0", "1e300"), "impossible-energy"),
        (json.dumps(LINE).replace("6000.0", "1e400"), "bad-json"),
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
    tracemalloc.start()
    for line in lines:
        with pytest.raises(RecordError, match="identifier"):
            decode(line)
    kept_b, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept_b < 1_000_000
