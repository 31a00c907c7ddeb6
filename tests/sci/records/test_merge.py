"""Merging: whatever arrives, in whatever order and however often, a joule counts once."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gramwatt.sci.figures.errors import ScoreError
from gramwatt.sci.records.merge import merge
from tests.journals import Writer, at


def joules(job):
    return sum(i.energy_j for device in job.devices for i in device.intervals)


def one_job(writer=None):
    writer = writer or Writer()
    return [
        writer.job(units=("image",)),
        writer.device(),
        *(writer.interval(10 * n, 10 * n + 10, 1000) for n in range(6)),
        writer.count(64),
        writer.count(36),
        writer.end(60),
    ]


def test_a_plain_job():
    job = merge(one_job())
    assert joules(job) == 6000
    assert sum(c.amount for c in job.counts) == 100
    assert (job.state, job.exit_code, job.duration_s) == ("completed", None, 60)
    assert job.units == ("image",)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_order_and_duplicates_change_nothing(data):
    records = one_job() + one_job(Writer("w2", node="n-2"))
    # The second node has a GPU of its own.
    records = [
        replace(r, device_id="GPU-2") if r.node == "n-2" and hasattr(r, "device_id") else r
        for r in records
    ]
    extra = data.draw(st.lists(st.sampled_from(records), max_size=20))
    shuffled = data.draw(st.permutations(records + extra))
    assert merge(shuffled) == merge(records)
    assert joules(merge(shuffled)) == 12_000


def test_the_greatest_end_wins_whatever_arrives_last():
    writer = Writer()
    records = [writer.job(), writer.device()]
    grown = [writer.interval(0, end, 100 * end) for end in (4, 8, 10)]
    for order in (grown, grown[::-1], [grown[2], grown[0], grown[1]]):
        assert joules(merge(records + order)) == 1000


def test_two_containers_of_one_host_count_a_gpu_once():
    first, second = one_job(Writer("w1", node="n-1")), one_job(Writer("w2", node="n-2"))
    job = merge(first + second)
    assert joules(job) == 6000
    assert "overlap-removed" in {notice.code for notice in job.notices}
    assert len(job.devices) == 1


def test_overlap_is_cut_in_proportion():
    a, b = Writer("w1"), Writer("w2", node="n-2")
    records = [a.job(), b.job(), a.device(), a.interval(0, 10, 1000), b.interval(5, 15, 2000)]
    # 1000 J, then the half of 2000 J that lies after second 10.
    assert joules(merge(records)) == pytest.approx(2000)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(1, 30), st.integers(0, 3)),
        min_size=1,
        max_size=12,
    )
)
def test_no_instant_counts_twice(spans):
    # Every writer sees the same constant 100 W, so the union's length times 100 is the truth.
    writers = [Writer(f"w{n}", node=f"n-{n}") for n in range(4)]
    records = [w.job() for w in writers] + [writers[0].device()]
    records += [writers[w].interval(s, s + length, 100 * length) for s, length, w in spans]
    covered = {second for s, length, _ in spans for second in range(s, s + length)}
    assert joules(merge(records)) == pytest.approx(100 * len(covered))


def test_wrapper_decides_how_the_job_ended():
    wrapper, rank = Writer("w1"), Writer("w2")
    records = [
        wrapper.job(role="command"),
        rank.job(role="track"),
        rank.end(5, "failed"),
        wrapper.end(9, "completed", exit_code=0),
    ]
    job = merge(records)
    assert (job.state, job.exit_code, job.ended_at) == ("completed", 0, at(9))


def test_the_worst_rank_decides_without_a_wrapper():
    a, b = Writer("w1"), Writer("w2")
    records = [a.job(), b.job(), a.end(8, "completed"), b.end(5, "failed", exit_code=3)]
    job = merge(records)
    assert (job.state, job.exit_code, job.ended_at) == ("failed", 3, at(8))


def test_a_job_runs_until_every_rank_has_ended():
    a, b = Writer("w1"), Writer("w2")
    records = [a.job(), b.job(), a.end(8)]
    assert merge(records).state == "running"
    assert merge([*records, b.end(9)]).state == "completed"


def test_a_meter_that_was_replaced_needs_no_end_of_its_own():
    dead, heir = Writer("w1"), Writer("w2")
    records = [dead.job(), dead.device(), dead.interval(0, 4, 400)]
    records += [heir.job(resumes="w1"), heir.interval(0, 10, 1000)]
    assert merge(records).state == "running"
    job = merge([*records, heir.end(10)])
    assert (job.state, joules(job)) == ("completed", 1000)
    assert "meter-replaced" in {notice.code for notice in job.notices}


def test_recovery_closes_a_lost_job_at_its_last_reading():
    dead, recovery = Writer("w1"), Writer("r-1")
    records = [dead.job(), dead.device(), dead.interval(0, 10, 1000)]
    records += [recovery.job(role="recovery", resumes="w1", started_at=at(500))]
    job = merge([*records, recovery.end(10, "lost")])
    assert (job.state, job.ended_at, job.duration_s) == ("lost", at(10), 10)


def test_an_end_of_its_own_is_better_known_than_a_recovery_s():
    writer, recovery = Writer("w1"), Writer("r-1")
    closed = [recovery.job(role="recovery", resumes="w1"), recovery.end(10, "lost")]
    job = merge([writer.job(), *closed, writer.end(60, exit_code=0)])
    assert (job.state, job.exit_code, job.duration_s) == ("completed", 0, 60)


def test_a_process_inside_a_command_does_not_decide_and_one_on_another_node_does():
    wrapper, inside, away = Writer("w1"), Writer("w2"), Writer("w3", node="n-2")
    records = [wrapper.job(role="command"), inside.job(started_at=at(1)), away.job()]
    records += [wrapper.end(9, exit_code=0), inside.end(5, "failed")]
    assert merge(records).state == "running"
    assert merge([*records, away.end(7)]).state == "completed"
    job = merge([*records, away.end(7, "failed", exit_code=3)])
    assert (job.state, job.exit_code, job.ended_at) == ("failed", 3, at(9))


def test_a_process_that_tracks_after_a_command_is_a_run_of_its_own():
    command, later = Writer("w1"), Writer("w2")
    records = [command.job(role="command"), command.end(9, exit_code=0)]
    records += [later.job(started_at=at(20))]
    assert merge(records).state == "running"
    job = merge([*records, later.end(30, "failed", exit_code=1)])
    assert (job.state, job.exit_code, job.reserved_s(["n-1"])) == ("failed", 1, 19)


def test_a_replaced_meter_belongs_to_the_run_of_the_one_before():
    dead, heir = Writer("w1"), Writer("w2")
    records = [dead.job(role="command"), heir.job(role="command", resumes="w1", started_at=at(50))]
    job = merge([*records, heir.end(60, "failed", exit_code=5)])
    assert (job.state, job.reserved_s(["n-1"]), job.started_at) == ("failed", 60, at(0))


def test_meters_that_resume_each_other_still_end():
    a, b = Writer("w1"), Writer("w2")
    records = [a.job(resumes="w2"), b.job(resumes="w1")]
    assert merge(records).state == "running"
    assert merge([*records, a.end(5), b.end(6)]).state == "completed"


def written(draw):
    """The records of some writers on up to three nodes, with any roles, ends and replacements."""
    records = []
    for number in range(draw(st.integers(1, 6))):
        writer = Writer(f"w{number}", node=f"n-{draw(st.integers(1, 3))}")
        resumes = draw(st.sampled_from([None, None, "w0", "w1"]))
        role = draw(st.sampled_from(["command", "track", "recovery"]))
        start = draw(st.integers(0, 50))
        records += [writer.job(role=role, resumes=resumes, started_at=at(start))]
        records += [writer.device("tpu-0", share=draw(st.sampled_from([0.5, 1.0])))]
        records += [writer.interval(start, start + 9, 100, "tpu-0")]
        if draw(st.integers(0, 4)):
            state = draw(st.sampled_from(["completed", "failed", "killed", "lost"]))
            code = draw(st.sampled_from([None, 0, 1, 7]))
            records += [writer.end(start + draw(st.integers(0, 30)), state, exit_code=code)]
    return records


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_state_times_and_energy_do_not_depend_on_the_order(data):
    records = written(data.draw)
    shuffled = data.draw(st.permutations(records + records[:3]))
    job = merge(records)
    assert merge(shuffled) == job
    assert (job.ended_at is None) == (job.state == "running")
    assert all(node.reserved[0][0] >= job.started_at for node in job.nodes)
    if job.state != "running":
        # A node's bad end is never hidden by another's good one.
        ends = [node.end.state for node in job.nodes]
        assert (job.state == "completed") == (set(ends) == {"completed"})
        assert job.state in ends
        assert job.duration_s >= max(job.reserved_s([node.name]) for node in job.nodes)


def test_what_one_writer_knows_fills_the_gaps_of_the_other():
    wrapper, rank = Writer("w1"), Writer("w2")
    records = [
        wrapper.job(role="command", project="vision", zone=None, tags={"team": "a"}),
        rank.job(role="track", project="default", zone="DE", pue=1.2, tags={"team": "b", "x": "1"}),
    ]
    head = merge(records).head
    assert (head.project, head.zone, head.pue) == ("vision", "DE", 1.2)
    assert head.tags == {"team": "a", "x": "1"}


def test_a_project_and_kind_that_only_the_script_in_a_command_names_are_the_jobs():
    wrapper, rank, other = Writer("w1"), Writer("w2"), Writer("w3")
    records = [
        wrapper.job(role="command", project="default", kind="training"),
        rank.job(role="track", project="vision", kind="inference"),
        other.job(role="track", project="default", kind="evaluation"),
    ]
    head = merge(records).head
    assert (head.project, head.kind) == ("vision", "inference")
    assert merge(records[:1]).head.project == "default"


def test_energy_of_a_device_that_was_never_described_still_counts():
    writer = Writer()
    job = merge([writer.job(), writer.interval(0, 10, 1000, device_id="GPU-9")])
    assert joules(job) == 1000
    assert job.devices[0].record.name == "not described"


def test_notices_of_the_meter_arrive_with_their_code():
    writer = Writer()
    job = merge([writer.job(notices=("meter-source-absent: no NVML here", "odd words"))])
    assert {(n.code, n.message) for n in job.notices} == {
        ("meter-source-absent", "no NVML here"),
        ("meter-remark", "odd words"),
    }


def test_a_journal_without_a_job_record_is_an_error():
    with pytest.raises(ScoreError, match="no job record"):
        merge([Writer().interval(0, 10, 1000)])


def test_two_jobs_do_not_merge():
    with pytest.raises(ScoreError, match="several jobs"):
        merge([Writer().job(), Writer(job="job-2").job()])
