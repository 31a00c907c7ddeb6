"""Valid inputs with a few changes, as hypothesis draws them and makes them small again."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hypothesis import strategies as st

TOKEN = re.compile(rb'"(?:[^"\\\n]|\\.)*"|-?\d[\d.eE+:TZ-]*|true|false|null|[^\s,:{}\[\]"]+')
"""A value or name of JSON, or a cell of CSV."""
EDGES = (
    *(b"", b"0", b"-0.0", b"-1", b"1.5", b"true", b"null", b'""', b"[]", b"{}", b"[[[]]]"),
    *(b"1e-320", b"1e308", b"1e400", b"NaN", b"-Infinity", b"9" * 20, b"9" * 5000),
    *(b'"a\\u0000b"', b'"\\ud800"', b'"\xff"', b"\x00", b'"' + b"x" * 70_000 + b'"'),
    *(b'"0001-01-01T00:00:00Z"', b'"9999-12-31T23:59:59.999999Z"', b'"2026-05-10T08:00:00+24:00"'),
    *(b"0001-01-01T00:00:00", b"9999-12-31T23:59:59", b'"2026-02-30T00:00:00Z"'),
    *(b'"../../x"', b'"=1+1"', b'"\xe2\x80\xae"', b"[" * 100_000),
)
TOKENS_MOST = 4000


@st.composite
def changed(draw: st.DrawFn, seeds: Sequence[bytes]) -> bytes:
    """One of the seeds with one to four changes: of a token, of a line, or of some bytes."""
    content = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(1, 4))):
        change = draw(st.sampled_from((_token, _token, _line, _bytes)))
        content = change(draw, content, draw(st.sampled_from(seeds)))
    return content


def _token(draw: st.DrawFn, content: bytes, other: bytes) -> bytes:
    """Another value: an edge, or one from elsewhere."""
    found = list(TOKEN.finditer(content[: 50 * TOKENS_MOST]))[:TOKENS_MOST]
    if not found:
        return content + draw(st.sampled_from(EDGES))
    one = draw(st.sampled_from(found))
    value = draw(st.sampled_from((*EDGES, *(each.group() for each in found[:200]))))
    return content[: one.start()] + value + content[one.end() :]


def _line(draw: st.DrawFn, content: bytes, other: bytes) -> bytes:
    """A line left out, twice, elsewhere, or from another input."""
    lines, others = content.split(b"\n"), other.split(b"\n")
    at, to = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
    moved = draw(st.sampled_from((None, lines[at], draw(st.sampled_from(others)))))
    if draw(st.booleans()):
        del lines[at]
    if moved is not None:
        lines.insert(to, moved)
    return b"\n".join(lines)


def _bytes(draw: st.DrawFn, content: bytes, other: bytes) -> bytes:
    """Some bytes left out or replaced."""
    start = draw(st.integers(0, len(content)))
    length = draw(st.integers(0, 16))
    return content[:start] + draw(st.binary(max_size=8)) + content[start + length :]
