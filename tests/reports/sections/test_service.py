from __future__ import annotations

from gramwatt.reports.job import build
from gramwatt.reports.model import Table, Text
from tests.documents import scored
from tests.sci.score.test_service import journal


def tables(minutes: str, *, full: bool = False, **more: float) -> dict[str, Table]:
    blocks = build(scored(journal(minutes, **more)), full=full).blocks  # type: ignore[arg-type]
    return {block.caption: block for block in blocks if isinstance(block, Table)}


def plain(table: Table) -> list[list[str]]:
    return [[str(cell).replace("\u202f", " ") for cell in row] for row in table.rows]


def test_a_service_has_a_row_for_each_unit_and_part() -> None:
    found = tables("iwwi", prefill_s=12.0, decode_s=108.0)
    per_unit = plain(found["Per request and token, idle time included"])
    assert [row[:2] for row in per_unit] == [["request", "20"], ["token", "1 000"]]
    assert per_unit[1][2].startswith("84.0 J/token (")
    parts = plain(found["What the energy was for"])
    assert [row[0].split()[0] for row in parts] == ["Prefill", "Decode", "Idle"]
    assert parts[0][1].startswith("2.0 Wh (0 to")
    assert parts[2][4] == "attributed: no counter of the server moved in that time"


def test_hours_are_shown_of_a_young_service_and_days_of_any() -> None:
    short, long = tables("w" * 130), tables("w" * 60 * 24 * 9)
    assert [row[0] for row in plain(short["By hour (UTC)"])] == [
        "2026-05-01 10:00",
        "2026-05-01 09:00",
        "2026-05-01 08:00",
    ]
    assert plain(short["By hour (UTC)"])[2][1:3] == ["600", "30 000"]
    assert "By hour (UTC)" not in long
    assert len(long["By day"].rows) == 7
    assert long["By day"].note == "The newest 7 of 10; the job's JSON has all."


def test_the_text_says_what_r_is_and_how_much_is_known() -> None:
    blocks = build(scored(journal("-iw"))).blocks
    (text,) = [b.text for b in blocks if isinstance(b, Text) and "Counted by the server" in b.text]
    assert "cached prompt tokens are not in R" in text
    assert "known for 67\u202f% of the time; 50 prompt tokens were cached." in text.replace(
        "\xa0", "\u202f"
    )
