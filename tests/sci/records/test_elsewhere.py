"""What counts elsewhere: constant power, so that lengths of time are the truth."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gramwatt.sci.records.elsewhere import charged, charged_s, parts_taken, without
from gramwatt.sci.records.merge import merge
from gramwatt.sci.records.records import Elsewhere, decode, encode
from tests.journals import Writer, at

SPANS = st.lists(st.tuples(st.integers(0, 80), st.integers(1, 40)), max_size=8)


def spans(pairs, part=1.0):
    return [Elsewhere(at(s), at(s + length), part) for s, length in pairs]


@given(SPANS, st.integers(1, 50))
def test_each_second_is_here_or_elsewhere(pairs, step):
    taken = parts_taken([[span] for span in spans(pairs)])
    writer = Writer()
    intervals = [writer.interval(s, s + step, 100 * step) for s in range(0, 100, step)]
    kept, removed_j = without(intervals, taken)
    whole_s = 100 - 100 % -step
    covered = {second for s, length in pairs for second in range(s, min(s + length, whole_s))}
    assert sum(i.energy_j for i in kept) == pytest.approx(100 * (whole_s - len(covered)))
    assert removed_j == pytest.approx(100 * len(covered))
    pieces = charged([(at(0), at(whole_s))], taken)
    assert charged_s(pieces) == pytest.approx(whole_s - len(covered))
    within = [charged_s(pieces, at(s), at(s + 1)) for s in range(whole_s)]
    assert [s for s, length in enumerate(within) if length == 0] == sorted(covered)
    assert [kept[0].start, kept[-1].end] == [at(0), at(whole_s)]
    assert all(a.end == b.start for a, b in zip(kept, kept[1:], strict=False))


@pytest.mark.parametrize(
    ("shares", "own", "taken"),
    [([0.5], 1.0, 0.5), ([0.5], 0.5, 0.0), ([0.75], 0.5, 0.5), ([0.5, 0.75], 0.1, 1.0)],
)
def test_the_lesser_has_what_the_better_leave_of_the_board(shares, own, taken):
    found = parts_taken([spans([(0, 10)], share) for share in shares], own)
    assert found == (tuple(spans([(0, 10)], taken)) if taken else ())


def test_an_interval_that_is_cut_is_estimated_and_a_whole_one_keeps_its_kind():
    writer = Writer()
    first, second = writer.interval(0, 10, 1000), writer.interval(10, 20, 1000)
    kept, _ = without([first, second], spans([(0, 15)]))
    assert [(i.energy_j, i.kind) for i in kept] == [
        (0.0, "measured"),
        (0.0, "estimated"),
        (500.0, "estimated"),
    ]


def test_a_meters_own_job_takes_nothing_out_whatever_its_lines_say():
    """`elsewhere` is the store's to write: a line that came with it changes no figure."""
    writer = Writer()
    device = writer.device(elsewhere=tuple(spans([(0, 10)])))
    assert decode(encode(device)) == device
    records = [device, writer.interval(0, 10, 1000), writer.end(10)]
    for reporter, joules in ((None, 1000.0), ("node", 0.0)):
        job = merge([writer.job(reporter=reporter), *records])
        assert sum(i.energy_j for d in job.devices for i in d.intervals) == joules
        assert ["counted-elsewhere"] * (reporter is not None) == [n.code for n in job.notices]
