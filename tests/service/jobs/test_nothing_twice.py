"""A device's time counts once over jobs: meter, Slurm's Prolog, Prometheus, in any order."""

import itertools

import pytest

from gramwatt.collectors.settings.identity import bound_id
from gramwatt.service.evidence import scored_inputs
from gramwatt.service.jobs.deletion import delete_job
from gramwatt.service.jobs.documents import job_document
from gramwatt.service.jobs.ingest import ingest
from tests.journals import H100, Writer, at, lines
from tests.service.keyed import client_of, with_key

GPU = "GPU-0a1b2c3d-0000-4000-8000-000000000001"


def of(reporter, job, spans, *, device_id=GPU, node="n-1", power_w=100.0, share=1.0, **about):
    """A job of a reporter with one board at constant power over spans [s]."""
    w = Writer(f"w-{job}", node, job)
    last = max(end for _, end in spans)
    return [
        w.job(reporter=reporter, started_at=w.at(min(s for s, _ in spans)), zone="FR", **about),
        w.device(device_id, name=H100["name"], share=share),
        *(w.interval(s, e, power_w * share * (e - s), device_id) for s, e in spans),
        w.end(last),
    ]


def minutes(first, last):
    return [(60 * n, 60 * n + 60) for n in range(first, last)]


def take(service, *journals):
    for records in journals:
        answer = ingest(service, records[0].job_id, lines(records))
        assert answer.rejected == []


def document(service, job):
    return job_document(service, job).document


def joules(service, job):
    energy = document(service, job).energy_kwh
    return None if energy is None else energy.value * 3.6e6


def left_out(service, job):
    return [n.message for n in document(service, job).notices if "elsewhere" in n.code]


# One board at 100 W for an hour: the meter has minutes 0 to 20, Prolog's 10 to 30, and so on.
OF_ALL = {
    "own": of(None, "own", minutes(0, 20)),
    "prolog": of("node", "prolog", minutes(10, 30), node="k-2"),
    "prom": of("prometheus", "prom", minutes(15, 60), node="p-3"),
}


@pytest.mark.parametrize("order", list(itertools.permutations(OF_ALL)))
def test_whatever_the_order_each_minute_counts_for_the_best_that_has_it(light, order):
    take(light, *(OF_ALL[name] for name in order))
    assert joules(light, "own") == pytest.approx(20 * 6000)
    assert joules(light, "prolog") == pytest.approx(10 * 6000)
    assert joules(light, "prom") == pytest.approx(30 * 6000)
    [prolog], [prom] = left_out(light, "prolog"), left_out(light, "prom")
    assert prolog.startswith("60000 J (0.0167 kWh) that node reported of 1 device are left out")
    assert prom.startswith("90000 J (0.025 kWh) that prometheus reported")
    assert left_out(light, "own") == []


def test_embodied_carbon_is_charged_for_the_same_time_as_energy(light):
    take(light, *OF_ALL.values())
    times = {
        name: [
            term.time_reserved_s
            for term in document(light, name).embodied_terms
            if term.device_id == GPU
        ]
        for name in OF_ALL
    }
    assert times == {"own": [1200.0], "prolog": [600.0], "prom": [1800.0]}


def test_later_lines_of_the_better_job_make_a_new_score_of_the_lesser(service):
    whole = of(None, "own", minutes(0, 20))
    early = [r for r in whole if r.TYPE != "interval" or r.end <= at(600)]
    take(service, early, OF_ALL["prom"], of("prometheus", "before", minutes(0, 12), node="p-3"))
    assert joules(service, "before") == pytest.approx(2 * 6000)
    take(service, whole)
    assert joules(service, "own") == pytest.approx(20 * 6000)
    assert joules(service, "before") == 0.0
    assert document(service, "before").revision == 2
    assert joules(service, "prom") == pytest.approx(40 * 6000)


def test_a_deleted_job_gives_back_what_was_taken_for_it(light):
    take(light, OF_ALL["own"], OF_ALL["prom"])
    assert joules(light, "prom") == pytest.approx(40 * 6000)
    delete_job(light, "own", by="u-1")
    assert joules(light, "prom") == pytest.approx(45 * 6000)
    assert left_out(light, "prom") == []


def test_of_a_shared_board_the_lesser_keeps_what_the_better_leaves(light):
    """The meter's job has half of the board; Prometheus reports the whole, then another half."""
    half = of(None, "own", minutes(0, 10), share=0.5)
    whole = of("prometheus", "whole", minutes(0, 10), node="p-3")
    other = of("prometheus", "other", minutes(0, 10), node="p-3", share=0.5)
    take(light, whole, other, half)
    assert joules(light, "own") == pytest.approx(30_000)
    assert joules(light, "whole") == pytest.approx(30_000)
    assert joules(light, "other") == pytest.approx(30_000)


def test_the_same_pod_has_its_part_once(light):
    pod = {"tags": {"pod": "uid-1"}}
    take(
        light,
        of("node", "prolog", minutes(0, 10), node="k-2", share=0.5, **pod),
        of(None, "own", minutes(0, 5), share=0.5, **pod),
    )
    assert joules(light, "prolog") == pytest.approx(5 * 3000)


def test_two_jobs_of_meters_that_share_a_board_are_as_before(light):
    take(light, of(None, "a", minutes(0, 10)), of(None, "b", minutes(0, 10), node="n-2"))
    assert joules(light, "a") == joules(light, "b") == pytest.approx(60_000)
    assert left_out(light, "a") == left_out(light, "b") == []


def test_a_device_without_an_id_of_its_own_is_the_same_on_the_same_node_only(light):
    here = of("node", "here", minutes(0, 10), device_id="tpu-0")
    there = of("node", "there", minutes(0, 10), device_id="tpu-0", node="n-2")
    take(light, here, there, of(None, "own", minutes(0, 10), device_id="tpu-0"))
    assert joules(light, "here") == 0.0
    assert joules(light, "there") == pytest.approx(60_000)


def of_slurm(reporter, name, cluster, nodes):
    """A job of Slurm with the processors of nodes by their number in it."""
    records = []
    for index, (node, spans) in nodes.items():
        w = Writer(f"w-{node}", node, name)
        place = {"slurm_cluster": cluster, "slurm_job_id": "42", "slurm_node": str(index)}
        records += [w.job(reporter=reporter, scheduler=place, tags={"slurm": "42"}, zone="FR")]
        what = {"device_class": "cpu", "name": "cpu", "meter": "model"}
        records += [w.device("cpu", **what)]
        records += [w.interval(s, e, 100.0 * (e - s), "cpu") for s, e in spans]
        records += [w.end(spans[-1][1])]
    return records


def test_a_processor_counts_while_nothing_better_measures_the_slurm_job_on_its_node(light):
    """Prolog's meters have two nodes for ten minutes; the job's own has five of the second."""
    both = {0: ("s-0", minutes(0, 10)), 1: ("s-1", minutes(0, 10))}
    take(light, of_slurm("node", "prolog", "c", both))
    take(light, of_slurm(None, "own", "c", {1: ("n-9", minutes(0, 5))}))
    assert joules(light, "prolog") == pytest.approx(60_000 + 30_000)
    take(light, of_slurm(None, "second", "c", {0: ("n-8", minutes(0, 10))}))
    assert joules(light, "prolog") == pytest.approx(30_000)


def test_the_same_number_in_another_cluster_is_another_job(light):
    take(light, of_slurm(None, "own", "c", {0: ("n-9", minutes(0, 10))}))
    take(light, of_slurm("node", "prolog", "d", {0: ("s-0", minutes(0, 10))}))
    assert joules(light, "prolog") == pytest.approx(60_000)


def test_a_pack_holds_what_was_taken_out(light):
    take(light, OF_ALL["own"], OF_ALL["prom"])
    inputs, stored = scored_inputs(light, "prom")
    again = type(inputs).from_texts(inputs.journal().splitlines(), inputs.to_doc(), None)
    assert again.score(light.catalog).energy_kwh == stored.energy_kwh
    assert stored.energy_kwh.value * 3.6e6 == pytest.approx(40 * 6000)


def test_one_key_of_several_projects_sends_what_counts_in_each(light):
    """Prolog's key may write both; a better job's part goes out of either project's."""
    client = client_of(light)
    key = with_key(light, "prolog", "ingest", "genomics", "vision")
    pod_a, pod_b = bound_id("pod-a", "genomics"), bound_id("pod-b", "vision")
    for records in (
        of("node", pod_a, minutes(0, 10), node="k-2", project="genomics"),
        of("node", pod_b, minutes(10, 20), node="k-2", project="vision"),
    ):
        sent = client.send(records[0].job_id, records, headers=key)
        assert (sent.status_code, sent.json["rejected_count"]) == (200, 0)
    take(light, of(None, "own", minutes(5, 15), project="vision"))
    names = (pod_a, pod_b, "own")
    assert {name: (document(light, name).project, joules(light, name)) for name in names} == {
        pod_a: ("genomics", pytest.approx(5 * 6000)),
        pod_b: ("vision", pytest.approx(5 * 6000)),
        "own": ("vision", pytest.approx(10 * 6000)),
    }
