import math
import random
from collections import defaultdict
from datetime import timedelta

import pytest

from gramwatt.sci.figures.quantity import weakest
from gramwatt.sci.records.records import format_time
from gramwatt.sci.score.service import IDLE_ASSUMED, IDLE_SEEN, SPLIT, UNSPLIT
from tests.documents import scored
from tests.journals import H100, T0, Writer

BUSY_W, IDLE_W = 600.0, 100.0
STEP_S = 60


def journal(minutes, *, prefill_s=2.0, decode_s=20.0, start=T0, runs=False, **more):
    """One GPU and a minute for each letter: `w` of work, `i` without requests, `-` not known.

    In a minute of work are 100 prompt tokens, 400 more, 10 requests and 60 s that counters moved.
    """
    meter, server = Writer("c", t0=start), Writer("c.c-servers-count", t0=start)
    yield meter.job(role="command", zone="FR", **more)
    yield meter.device("GPU-1", **H100)
    for number, what in enumerate(minutes):
        start, end = STEP_S * number, STEP_S * (number + 1)
        watts = BUSY_W if what == "w" else IDLE_W
        yield meter.interval(start, end, watts * STEP_S, power_max_w=watts)
        amounts = {}
        amounts |= {("service.known_s", None): 0.0 if what == "-" else STEP_S}
        if what == "w":
            amounts |= {("token", "prefill"): 100.0, ("token", "decode"): 400.0}
            amounts |= {("request", None): 10.0, ("service.cached_token", None): 50.0}
            amounts |= {("service.busy_s", None): 60.0}
            amounts |= {("service.prefill_s", None): prefill_s}
            amounts |= {("service.decode_s", None): decode_s}
        for (unit, phase), amount in amounts.items():
            if amount:
                yield server.count(amount, unit, end - 0.25, phase=phase)
    if not runs:
        yield meter.end(STEP_S * len(minutes))


def total(document):
    return document.service.total


def joules(row):
    found = {}
    for part in row.parts:
        figure = part.energy_j
        found[part.part] = (figure.value, figure.low, figure.high)
    return found


def test_a_job_without_a_server_is_no_service():
    meter = Writer()
    records = [meter.job(), meter.device(), meter.interval(0, 60, 6e3), meter.end(60)]
    assert scored(records).service is None


def test_how_a_server_worked_is_no_part_of_r():
    document = scored(journal("iwwi"))
    counted = {row.unit: row.count for row in document.sci}
    assert counted == {"token": 1_000.0, "request": 20.0}
    assert document.days[0].counts == counted
    row = total(document)
    assert (row.counts, row.cached_tokens, row.known_s) == (counted, 100.0, 240.0)
    per_token = row.energy_j_per_unit["token"]
    assert per_token.value == pytest.approx(2 * 60 * (BUSY_W + IDLE_W) / 1_000)


def test_busy_time_is_divided_by_the_times_of_requests():
    found = joules(total(scored(journal("iwwi", prefill_s=12.0, decode_s=108.0))))
    assert found["prefill"][0] == pytest.approx(0.1 * 120 * BUSY_W)
    assert found["decode"][0] == pytest.approx(0.9 * 120 * BUSY_W)
    assert found["idle"][0] == pytest.approx(120 * IDLE_W)
    # 24 s of requests in prefill cannot have had more than 24 s of a device at its highest power,
    # and decode, with 216 s, may have had all of it.
    assert found["prefill"][1] == 0
    assert found["prefill"][2] == pytest.approx(24 * BUSY_W, rel=0.06)
    assert found["decode"][1] == pytest.approx(96 * BUSY_W, rel=0.06)
    assert found["decode"][2] == pytest.approx(120 * BUSY_W, rel=0.06)


def test_few_requests_leave_the_rest_of_their_minutes_idle():
    row = total(scored(journal("iiww", prefill_s=2.0, decode_s=20.0)))
    found = joules(row)
    idle_at_work_j = (120 - 44) * IDLE_W
    assert found["idle"][0] == pytest.approx(120 * IDLE_W + idle_at_work_j)
    assert found["idle"][1] <= 120 * IDLE_W
    assert found["idle"][2] >= 240 * IDLE_W  # requests that overlap leave more
    assert sum(value for value, _, _ in found.values()) == pytest.approx(120 * (BUSY_W + IDLE_W))
    kinds = {part.part: part.energy_j.kind for part in row.parts if part.energy_j}
    assert kinds == {"prefill": "estimated", "decode": "estimated", "idle": "estimated"}


def test_idle_energy_that_was_seen_alone_is_attributed():
    row = total(scored(journal("iiiiw", prefill_s=30.0, decode_s=300.0)))
    (idle,) = [part for part in row.parts if part.part == "idle"]
    assert (idle.energy_j.kind, idle.energy_j.value) == ("attributed", 24_000.0)


def test_without_times_work_is_not_split():
    found = joules(total(scored(journal("iw", prefill_s=0.0, decode_s=0.0))))
    assert found.keys() == {"work", "idle"}
    assert found["work"][0] == pytest.approx(60 * BUSY_W)
    assert found["idle"][0] == pytest.approx(60 * IDLE_W)


def test_idle_power_that_was_never_seen_is_at_most_the_mean():
    found = joules(total(scored(journal("-ww", prefill_s=2.0, decode_s=28.0))))
    whole_j = 60 * IDLE_W + 120 * BUSY_W
    assert found["idle"][0] == pytest.approx(whole_j * (180 - 60) / 180)
    assert found["idle"][1] == 0
    assert found["idle"][2] >= whole_j


def test_hours_and_days_add_up_and_a_count_lies_in_its_own_hour():
    document = scored(journal("i" * 59 + "w" + "i" * 61))
    service = document.service
    assert [row.counts.get("token", 0.0) for row in service.hours] == [500.0, 0.0, 0.0]
    assert [row.start[11:16] for row in service.hours] == ["08:00", "09:00", "10:00"]
    assert [row.day for row in service.days] == ["2026-05-01"]
    whole = sum(row.energy_j.value for row in service.hours if row.energy_j)
    assert whole == pytest.approx(document.energy_kwh.value * 3.6e6)
    for row in service.hours:
        assert sum(value for value, _, _ in joules(row).values()) == pytest.approx(
            row.energy_j.value
        )
        assert row.closed


def test_time_that_was_wholly_idle_is_as_certain_as_its_meter():
    row = total(scored(list(journal("iii"))))
    whole = [getattr(row.energy_j, end) for end in ("value", "low", "high")]
    assert joules(row)["idle"] == pytest.approx(whole, rel=1e-9)


def test_a_stretch_of_a_running_service_is_closed_once_a_later_one_has_begun():
    service = scored(journal("i" * 70, runs=True)).service
    assert [row.closed for row in service.hours] == [True, False]
    assert [row.closed for row in (*service.days, service.total)] == [False, False]


SECOND, READ_S = timedelta(seconds=1), 420


class Plain:
    """A service of a random day and night, second by second: what each row of it must have."""

    def __init__(self, seed):
        draw = random.Random(seed)
        self.start = T0 + timedelta(hours=draw.randrange(10), minutes=draw.randrange(60))
        self.read_s, self.length = 60 * draw.choice([1, 7, 25]), draw.choice([12, 40, 90])
        self.has_times, self.seconds = draw.random() < 0.7, self.read_s * self.length
        meter, server = Writer("c", t0=self.start), Writer("c.c-servers-count", t0=self.start)
        self.records = [meter.job(role="command", zone="FR")]
        self.joules = [0.0] * self.seconds
        self.peaks = []
        self.readings = []
        for n in range(draw.choice([1, 2])):
            self.records.append(meter.device(f"GPU-{n}", **H100))
            self.peaks.append([])
            for at in range(0, self.seconds, READ_S):
                end = min(at + READ_S, self.seconds)
                watts, most = draw.choice([90.0, 400.0, 640.0]), draw.choice([None, 700.0])
                joules = watts * (end - at)
                self.records.append(meter.interval(at, end, joules, f"GPU-{n}", power_max_w=most))
                self.peaks[-1].append((at, end, max(watts, most or 0.0)))
                for second in range(at, end):
                    self.joules[second] += watts
        for number in range(self.length):
            amounts = {}
            known = draw.choice([1.0, 1.0, 0.91, 0.89, 0.0])
            amounts["service.known_s", None] = known * self.read_s
            if draw.random() < 0.6:
                amounts |= {("token", "prefill"): 100.0, ("token", "decode"): draw.uniform(1, 900)}
                amounts |= {("request", None): 3.0, ("service.cached_token", None): 50.0}
                if draw.random() < 0.9:
                    amounts["service.busy_s", None] = self.read_s * draw.uniform(0.1, 1.2)
                if self.has_times and draw.random() < 0.8:
                    amounts["service.prefill_s", None] = self.read_s * draw.uniform(0.0, 0.3)
                    amounts["service.decode_s", None] = self.read_s * draw.uniform(0.1, 3.0)
            self.readings.append(amounts)
            for (unit, phase), amount in amounts.items():
                if amount or unit == "service.known_s":
                    at_s = (number + 1) * self.read_s - 0.25
                    self.records.append(server.count(amount, unit, at_s, phase=phase))
        self.records.append(meter.end(self.seconds))

    def hours(self):
        """The seconds between full hours; midnight of UTC is one of them."""
        moments = (self.start + n * SECOND for n in range(self.seconds))
        cuts = [n for n, at in enumerate(moments) if not n or not (at.minute or at.second)]
        return list(zip(cuts, [*cuts[1:], self.seconds], strict=True))

    def pieces(self, first, end):
        """Length, energy and counts of what lies between readings and hours."""
        for number, amounts in enumerate(self.readings):
            left, right = max(first, number * self.read_s), min(end, (number + 1) * self.read_s)
            if left < right:
                part = (right - left) / self.read_s
                own = {key: amount * part for key, amount in amounts.items() if amount}
                yield right - left, sum(self.joules[left:right]), own

    def row(self, first, end):
        """Energy, parts with their ends, and counts of an hour."""
        day = (self.start + first * SECOND).date()
        of_day = [
            piece
            for hour in self.hours()
            if (self.start + hour[0] * SECOND).date() == day
            for piece in self.pieces(*hour)
        ]
        idle = [
            (length, joules)
            for length, joules, own in of_day
            if set(own) <= {("service.known_s", None)}
            and own.get(("service.known_s", None), 0.0) >= 0.9 * length
        ]
        idle_s = sum(length for length, _ in idle)
        idle_w = sum(joules for _, joules in idle) / idle_s if idle_s >= 60 else None
        counts = defaultdict(float)
        work_j = work_s = rest_j = busy_s = prefill_s = decode_s = 0.0
        for length, joules, own in self.pieces(first, end):
            for key, amount in own.items():
                counts[key] += amount
            if set(own) <= {("service.known_s", None)}:
                rest_j += joules
                continue
            work_j, work_s = work_j + joules, work_s + length
            busy_s += own.get(("service.busy_s", None), 0.0)
            prefill_s += own.get(("service.prefill_s", None), 0.0)
            decode_s += own.get(("service.decode_s", None), 0.0)
        day_s = [
            sum(own.get((f"service.{name}_s", None), 0.0) for _, _, own in of_day)
            for name in ("prefill", "decode")
        ]
        peak_w = sum(
            max(watts for at, until, watts in own if at < end and until > first)
            for own in self.peaks
        )
        waits = self._waiting(work_j, work_s, busy_s, prefill_s + decode_s, idle_w)
        work = work_j - waits[0], work_j - waits[2], work_j - waits[1]
        parts = {"idle": tuple(rest_j + joules for joules in waits)}
        times = (prefill_s, decode_s) if prefill_s or decode_s else tuple(day_s)
        if not sum(times):
            parts["work"] = work
        for name, own_s, other_s in (
            ("prefill", times[0], times[1]),
            ("decode", times[1], times[0]),
        ):
            if not sum(times):
                continue
            value = work[0] * own_s / sum(times)
            most, least = work[2], 0.0
            if prefill_s or decode_s:
                most, least = min(most, own_s * peak_w), max(0.0, work[1] - other_s * peak_w)
            else:
                least = max(0.0, work[1] - work[2])
            parts[name] = value, min(least, value), max(most, value)
        energy_j = sum(self.joules[first:end])
        return {"energy_j": energy_j, "parts": parts, "counts": counts, "rest_j": rest_j}

    def _waiting(self, work_j, work_s, busy_s, requests_s, idle_w):
        """What of the working time was idle, at least and at most [J]."""
        if not work_s:
            return 0.0, 0.0, 0.0
        moved_s = min(busy_s, work_s) if busy_s else work_s
        served_s = min(moved_s, requests_s) if requests_s else moved_s
        least_s, most_s = work_s - moved_s, work_s
        if requests_s >= moved_s:
            most_s = least_s
        if idle_w is None:
            mean_w = work_j / work_s
            return mean_w * (work_s - served_s), 0.0, mean_w * most_s
        value, low, high = (min(idle_w * s, work_j) for s in (work_s - served_s, least_s, most_s))
        return value, low, high


def added(rows):
    """Rows as one."""
    parts = defaultdict(lambda: [0.0, 0.0, 0.0])
    counts = defaultdict(float)
    for row in rows:
        for name, of_row in row["parts"].items():
            parts[name] = [a + b for a, b in zip(parts[name], of_row, strict=True)]
        for key, amount in row["counts"].items():
            counts[key] += amount
    joules = {name: sum(row[name] for row in rows) for name in ("energy_j", "rest_j")}
    return {**joules, "parts": parts, "counts": counts}


def agree(row, expected):
    energy, carbon, counts = row.energy_j, row.total_g, expected["counts"]
    assert carbon is not None
    exact = lambda value: pytest.approx(value, rel=1e-9, abs=1e-9)  # noqa: E731
    assert energy.value == exact(expected["energy_j"])
    units = defaultdict(float)
    for (unit, _), amount in counts.items():
        if not unit.startswith("service."):
            units[unit] += amount
    assert row.counts == exact(dict(units))
    assert row.cached_tokens == exact(counts.get(("service.cached_token", None), 0.0))
    assert row.known_s == exact(counts.get(("service.known_s", None), 0.0))
    for figures, whole in ((row.energy_j_per_unit, energy), (row.total_g_per_unit, carbon)):
        values = {unit: figure.value for unit, figure in figures.items() if figure}
        assert values == exact({unit: whole.value / amount for unit, amount in units.items()})
    assert [part.part for part in row.parts] == [
        name for name in ("prefill", "decode", "work", "idle") if name in expected["parts"]
    ]
    for part in row.parts:
        fractions = [joules / expected["energy_j"] for joules in expected["parts"][part.part]]
        seen = part.part == "idle" and expected["rest_j"] >= 0.9 * expected["parts"]["idle"][0]
        why = {"idle": IDLE_SEEN if seen else IDLE_ASSUMED, "work": UNSPLIT}.get(part.part, SPLIT)
        assert (part.energy_j.kind, part.energy_j.source) == (
            weakest((energy.kind, "attributed" if seen else "estimated")),
            why,
        )
        assert part.tokens == exact(counts.get(("token", part.part), 0.0))
        for figure, of in ((part.energy_j, energy), (part.total_g, carbon)):
            value, low, high = fractions
            assert figure.value == exact(of.value * value)
            if not value > 0:
                continue
            # The assumption and the meter are independent: the root of squares, by logarithm.
            up = math.hypot(math.log(high / value), math.log(of.high / of.value))
            assert figure.high == exact(figure.value * math.exp(up))
            if low > 0:
                # A range down to next to nothing is taken to end at a hundredth.
                least = math.log(max(low / value, 0.01))
                down = math.hypot(least, math.log(of.low / of.value))
                assert figure.low == exact(figure.value * math.exp(-down))
            else:
                assert figure.low == 0
        per_token = part.energy_j_per_token
        assert (per_token is not None) is bool(part.tokens)
        if per_token and part.energy_j:
            assert per_token.value == exact(part.energy_j.value / part.tokens)


@pytest.mark.parametrize("seed", range(10))
def test_every_row_is_that_of_a_walk_through_its_seconds(seed):
    plain = Plain(seed)
    service = scored(plain.records).service
    assert service is not None
    hours = plain.hours()
    rows = [plain.row(*hour) for hour in hours]
    starts = [plain.start + first * SECOND for first, _ in hours]
    assert [row.start for row in service.hours] == [format_time(at) for at in starts][-48:]
    for row, expected in zip(service.hours, rows[-48:], strict=True):
        agree(row, expected)
    for day_row in service.days:
        own = [r for at, r in zip(starts, rows, strict=True) if f"{at:%Y-%m-%d}" == day_row.day]
        agree(day_row, added(own))
    agree(service.total, added(rows))
