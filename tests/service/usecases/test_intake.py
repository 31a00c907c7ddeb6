"""The compiled parser gives what the journal's own parser gives, whatever the line."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gramwatt.sci.base.errors import RecordError
from gramwatt.sci.journal.records import decode, encode, parse_line
from gramwatt.service.usecases.intake.lines import parsed
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
@settings(max_examples=400, deadline=None)
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
