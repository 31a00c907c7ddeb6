"""The host of a virtual machine: its share of a typical server, which nobody declared."""

import pytest

from gramwatt.sci.embodied.te import host_te, virtual_share
from tests.documents import journal_of, scored

GIB = 2.0**30


ESTIMATED = {"kind": "estimated"}


def document(*, virtual, threads=2.0, memory_gib=8.0):
    cpu = {"device_class": "cpu", "name": "AMD EPYC", **ESTIMATED, "virtual": virtual}
    cpu |= {"units": threads, "units_total": threads}
    ram = {"device_class": "ram", "name": "memory", **ESTIMATED, "memory_b": memory_gib * GIB}
    devices = ("n-cpu", cpu, [(0, 60, 100)]), ("n-ram", ram, [(0, 60, 10)])
    return scored(journal_of(*devices, zone="FR", pue=None))


def test_its_notices_are_few_and_none_lists_processors():
    doc = document(virtual=True)
    codes = [notice.code for notice in doc.notices]
    assert len(codes) <= 3
    assert set(codes) <= {"pue-undeclared", "unit-undeclared", "intensity-annual"}
    codes = [notice.code for notice in document(virtual=False).notices]
    assert {"host-modelled", "energy-estimated", "hardware-ambiguous"} <= set(codes)
    assert not any("epyc-9654 or" in notice.message for notice in doc.notices)


def host(doc):
    [term] = [row for row in doc.embodied_terms if row.device_id.endswith("-host")]
    return term


def test_a_virtual_machine_bears_its_share_of_a_typical_server():
    term, whole = host(document(virtual=True)), host(document(virtual=False))
    # 2 of 96 threads, or 8 of 384 GiB: the same part of 25 + 156.7 + 384 x 1.4 kg.
    share = term.resources_reserved / term.resources_total
    assert share == pytest.approx(2 / 96)
    assert term.te_g.value == pytest.approx(719.3e3, rel=0.001)
    assert term.te_g.kind == "estimated"
    assert term.embodied_g.value < whole.embodied_g.value / 10
    assert whole.te_g.value > 180e3  # a machine that is not shared is a whole one


def test_its_share_is_estimated_and_its_range_holds_small_and_large_servers():
    doc = document(virtual=True, threads=2, memory_gib=24)
    [share] = [row for row in doc.method.inputs if row.symbol == "RR/ToR"]
    assert share.figure.kind == "estimated"
    assert share.figure.value == pytest.approx(24 / 384)  # memory is its larger part
    m = host(doc).embodied_g
    # A sixteenth of a server, 2 of 256 threads of one, or 24 of 160 GiB of another.
    assert m.low < m.value / 3
    assert m.high > 2 * m.value


def test_a_virtual_machine_as_large_as_a_server_is_one():
    assert virtual_share(128, 512) is None
    assert host(document(virtual=True, threads=128, memory_gib=512)).te_g.value == (
        pytest.approx(host_te(None, 128.0, 512.0).te_g.value)
    )
    assert virtual_share(None, None) is None


def gpu_document(threads, gpus, region="aws:us-east-1"):
    cpu = {"device_class": "cpu", "name": "Intel Xeon Platinum 8259CL", **ESTIMATED}
    cpu |= {"units": threads, "units_total": threads, "virtual": True}
    board = {"name": "Tesla T4", "units_total": float(gpus)}
    boards = [(f"GPU-{n}", board, [(0, 60, 10)]) for n in range(gpus)]
    devices = ("n-cpu", cpu, [(0, 60, 100)]), *boards
    return scored(journal_of(*devices, zone="FR", pue=None, region=region))


def test_jobs_in_the_instances_of_a_host_add_up_to_it():
    """24 g4dn.xlarge have the threads and memory of g4dn.metal, and one of 16xlarge two thirds."""

    def host_g(doc):
        return host(doc).embodied_g.value

    metal = host_g(gpu_document(96, 8))
    assert "aws:g4dn.metal" in host(gpu_document(96, 8)).label
    assert 24 * host_g(gpu_document(4, 1)) == pytest.approx(metal)
    assert host_g(gpu_document(64, 1)) == pytest.approx(metal * 2 / 3)
    assert "instance" not in host(gpu_document(5, 1)).label  # no instance has five threads
