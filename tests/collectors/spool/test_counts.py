"""When what a counter has counted becomes a final line."""

from __future__ import annotations

from gramwatt.collectors.settings.clock import NS_PER_S
from gramwatt.collectors.spool.counts import CountedSoFar
from gramwatt.collectors.spool.intervals import moment

START_NS = 1_700_006_400 * NS_PER_S  # a midnight


def test_lines_of_servers_end_with_the_last_reading_before_each_5_minutes():
    counts = CountedSoFar(("image",), lambda *_: None, START_NS)
    ends = []
    for reading in range(1, 3 * 720 + 1):  # every 5 s, and just before each
        at_ns = START_NS + reading * 5 * NS_PER_S - NS_PER_S // 4
        counts.update({("request", None): float(reading)}, at_ns)
        ends += [(fields["at"], fields["amount"]) for fields in counts.final()]
    for boundary in range(60, 3 * 720 + 1, 60):
        assert (moment(START_NS + boundary * 5 * NS_PER_S - NS_PER_S // 4), boundary) in ends
    assert len(ends) < 400
