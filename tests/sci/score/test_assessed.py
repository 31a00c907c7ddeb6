"""What is said beside the figures: every notice of a job with its field and figures, and hosts."""

import pytest

from gramwatt.sci.score.score import changes_no_figure
from gramwatt.sci.score.timeseries import CHART_STEPS_S, MAX_CHART_POINTS, _chart_step_s
from tests.documents import DAILY, journal_of, scored
from tests.journals import H100, FakeGrid, Writer

CPU = {"device_class": "cpu", "name": "Intel Xeon Platinum 8480C", "meter": "rapl"}
MODULE = {"device_class": "module", "name": "NVIDIA Jetson AGX Orin 64GB", "includes_host": True}
HOUR, YEAR = 3600, 365 * 24 * 3600
BOARD = ("GPU-1", H100, [(0, HOUR, 3e5)])
UNIT = ("unit-undeclared", "sci", "R is 1 job")
HOST = ("host-modelled", "embodied_g", "from its size")


def job(*devices, grid=DAILY, more=(), **head):
    """A score of devices, an hour long; `more` are records of others."""
    records = journal_of(*devices, **{"end_s": HOUR, "pue": 1.1, **head})
    return scored([*records, *more], grid)


def model_of(joules, device_id="cpu-0"):
    return device_id, {**CPU, "kind": "estimated"}, [(0, HOUR, joules)]


NOTICES = {
    "hourly": (lambda: job(BOARD), "B", [UNIT, HOST]),
    "no device": (
        lambda: job(),
        "D",
        [
            ("energy-unmeasured", "energy_kwh", "energy was not measured"),
            UNIT,
            ("embodied-unknown", "embodied_g", "No device of the job is known"),
        ],
    ),
    "nothing read of it": (
        lambda: job(("GPU-1", H100, [])),
        "D",
        [("energy-unmeasured", "devices.GPU-1.energy_j", "80GB HBM3 (gpu) was read"), UNIT, HOST],
    ),
    "annual": (
        lambda: job(BOARD, grid=None),
        "B",
        [UNIT, HOST, ("intensity-annual", "operational_g", "(Germany, 2025)")],
    ),
    "its country's": (
        lambda: job(BOARD, grid=None, zone="IN-AN"),
        "B",
        [
            UNIT,
            HOST,
            ("intensity-annual", "operational_g", "2025); "),
            ("intensity-reused", "operational_g", "its country (Mainland India) is used"),
        ],
    ),
    "the world's": (
        lambda: job(BOARD, grid=None, zone=None),
        "C",
        [("zone-unknown", "operational_g", "the world average"), UNIT, HOST],
    ),
    "a quarter modelled": (
        lambda: job(BOARD, model_of(1e5)),
        "B",
        [("energy-estimated", "energy_kwh", "25% of the energy is estimated"), UNIT, HOST],
    ),
    "a tenth modelled, one unread": (
        lambda: job(BOARD, model_of(1e5 / 3), ("GPU-2", H100, [])),
        "D",
        [
            ("energy-unmeasured", "devices.GPU-2.energy_j", "80GB HBM3 (gpu) was read"),
            ("energy-estimated", "energy_kwh", "10% of the energy that is known is estimated"),
            UNIT,
            HOST,
        ],
    ),
    "too much power": (
        lambda: job(("GPU-1", H100, [(0, 100, 3e5), (100, 200, 9e3)]), end_s=200),
        "B",
        [
            ("power-impossible", "devices.GPU-1.energy_j", "1 min 40 s, 3000 W, and its board"),
            UNIT,
            HOST,
        ],
    ),
    "too much of many": (  # no interval alone is: counters step
        lambda: job(("GPU-1", H100, [(n, n + 1, 5e3) for n in range(60)]), end_s=60),
        "B",
        [
            ("power-impossible", "devices.GPU-1.energy_j", "1 min 0 s, 5000 W, and its board"),
            UNIT,
            HOST,
        ],
    ),
    "of two boards": (
        lambda: job(("GPU-1", {**H100, "units": 2.0}, [(0, HOUR, 1400.0 * HOUR)])),
        "B",
        [UNIT, HOST],
    ),
    "gaps": (
        lambda: job(
            ("GPU-1", H100, [(0, 1800, 3e5)]),
            ("GPU-2", H100, [(0, 900, 3e5)]),
            ("GPU-3", H100, [(0, 3300, 3e5)]),  # a twelfth is none
        ),
        "B",
        [("meter-gap", "devices.GPU-2.energy_j", "cover 15 min 0 s of the 1 h 0 min"), UNIT, HOST],
    ),
    "the host of a module": (
        lambda: job(("M", MODULE, [(0, HOUR, 3e4)]), ("cpu-0", CPU, [])),
        "B",
        [UNIT, ("embodied-modelled", "devices.M.embodied_g", "modelled (tier D)")],
    ),
    "a module that was read for a while": (
        lambda: job(("M", MODULE, [(0, 900, 3e4)])),
        "B",
        [
            ("meter-gap", "devices.M.energy_j", "cover 15 min 0 s of the 1 h 0 min"),
            UNIT,
            ("embodied-modelled", "devices.M.embodied_g", "modelled (tier D)"),
        ],
    ),
    "no time": (
        lambda: job(("GPU-1", H100, []), end_s=0),
        "D",
        [
            ("energy-unmeasured", "devices.GPU-1.energy_j", "80GB HBM3 (gpu) was read"),
            UNIT,
            ("embodied-unknown", "embodied_g", "HBM3 was reserved for no time"),
        ],
    ),
    "seven years": (
        lambda: job(("GPU-1", H100, [(0, 7 * YEAR, 3e10)]), grid=None, end_s=7 * YEAR),
        "D",
        [
            UNIT,
            ("embodied-unknown", "embodied_g", "7 years apart"),
            ("intensity-annual", "operational_g", "(Germany, 2025)"),
        ],
    ),
}


def test_each_job_has_its_notices_and_no_other():
    for name, (make, grade, expected) in NOTICES.items():
        document = make()
        rows = [(notice.code, notice.field) for notice in document.notices]
        assert rows == [row[:2] for row in expected], name
        for notice, (*_, words) in zip(document.notices, expected, strict=True):
            assert words in notice.message, name
        assert document.data_quality.grade == grade, name


def test_times_are_named_by_node_where_they_differ():
    other = Writer("w-2", "n-2")
    more = [
        other.job(zone="DE", pue=1.1),
        other.device("GPU-9", **H100),
        other.interval(0, 1800, 3e5, "GPU-9"),
        other.end(1800),
    ]
    for records, expected in (
        ((), [("TiR, time reserved", 3600.0, None)]),
        (
            more,
            [
                ("TiR, time reserved on n-1", 3600.0, "n-1"),
                ("TiR, time reserved on n-2", 1800.0, "n-2"),
            ],
        ),
    ):
        rows = [row for row in job(BOARD, more=records).method.inputs if row.symbol == "TiR"]
        assert [(row.what, row.figure.value, row.of) for row in rows] == expected


def test_intensity_that_its_zone_never_has_at_such_hours_is_named():
    """Germany has 341 g/kWh in the year; a grid of a thirtieth of it is not its."""
    for g_per_kwh, zone, expected in (
        (341, "DE", []),
        (11, "DE", ["input-implausible"]),
        (11, "IS", []),
        (5000, "DE", ["input-implausible"]),
    ):
        document = job(BOARD, zone=zone, grid=FakeGrid(g_per_kwh, error=0.05), units=("image",))
        codes = [notice.code for notice in document.notices]
        found = [code for code in codes if code == "input-implausible"]
        assert found == expected, (g_per_kwh, zone)


def test_a_job_that_was_reserved_for_no_time_is_one_job():
    document = job(("GPU-1", H100, []), end_s=0)
    assert [row.counts for row in document.days] == [{"job": 1.0}]


CARDS = {"name": "NVIDIA GeForce RTX 4090", "units_total": 2.0}
LIMITED = {**CPU, "units": 16.0, "units_total": 64.0, "share": 0.125}
HOSTS = {
    "a board of eight": ([BOARD], [("host, the share of 1 of 8 accelerators", 1.0, 8.0)]),
    "a card of two": (
        [("GPU-1", CARDS, [(0, HOUR, 3e5)])],
        [("host (CPU, memory, board, case)", 1.0, 2.0)],
    ),
    "a fraction of a board": (
        [("GPU-1", {**H100, "share": 0.25}, [(0, HOUR, 3e5)])],
        [("host, the share of 0.25 of 8 accelerators", 0.25, 8.0)],
    ),
    "more boards than said": (
        [(f"GPU-{n}", {**H100, "units_total": 1.0}, [(0, HOUR, 3e5)]) for n in range(10)],
        [("host, the share of 10 of 10 accelerators", 10.0, 10.0)],
    ),
    "a board and a card": (
        [BOARD, ("GPU-2", CARDS, [(0, HOUR, 3e5)])],
        [("host, the share of 2 of 8 accelerators", 2.0, 8.0)],
    ),
    "a card and a board": (
        [("GPU-2", CARDS, [(0, HOUR, 3e5)]), BOARD],
        [("host, the share of 2 of 8 accelerators", 2.0, 8.0)],
    ),
    "processors alone": (
        [("cpu-0", CPU, [(0, HOUR, 3e5)])],
        [("host (CPU, memory, board, case)", 1.0, 1.0)],
    ),
    "half of what limits left": (  # an eighth of 64, of 16
        [("cpu-0", LIMITED, [(0, HOUR, 3e5)])],
        [("host (CPU, memory, board, case)", 0.5, 1.0)],
    ),
    "more than limits left": (  # three quarters of 64, of 16
        [("cpu-0", {**LIMITED, "share": 0.75}, [(0, HOUR, 3e5)])],
        [("host (CPU, memory, board, case)", 1.0, 1.0)],
    ),
    "a module": ([("M", MODULE, [(0, HOUR, 3e4)])], []),
}


def test_a_host_is_borne_by_what_is_reserved_of_it():
    for name, (devices, expected) in HOSTS.items():
        terms = [row for row in job(*devices).embodied_terms if row.device_id == "n-1-host"]
        rows = [(row.label, row.resources_reserved, row.resources_total) for row in terms]
        assert rows == expected, name


def test_the_order_of_a_hosts_devices_decides_nothing():
    totals = {name: job(*HOSTS[name][0]).embodied_g for name in HOSTS}
    assert totals["a board and a card"].value == totals["a card and a board"].value


def test_a_device_has_means_by_time_and_the_highest_of_its_intervals():
    document = job(
        (
            "GPU-1",
            H100,
            [
                (0, 1200, 3e5, {"utilisation_mean": 0.9, "memory_peak_b": 5e9}),
                (1200, 1800, 1e5, {"utilisation_mean": 0.3, "power_max_w": 640.0}),
                (1800, HOUR, 1e5, {"memory_peak_b": 7e9, "power_max_w": 90.0}),
            ],
        ),
        ("GPU-2", H100, [(0, HOUR, 3e5)]),
    )
    rows = [row for row in document.devices if row.device_class == "gpu"]
    read = [(row.mean_utilisation, row.peak_memory_b, row.max_power_w) for row in rows]
    assert read == [(pytest.approx(0.7), 7e9, 640.0), (None, None, None)]
    rows_of_host = [row for row in document.devices if row.device_class == "host"]
    assert [(row.device_id, row.share, row.energy_j) for row in rows_of_host] == [
        ("n-1-host", 0.25, None)
    ]


def test_corrections_of_names_and_free_tags_change_no_figure():
    fields = {"name": True, "excluded": True, "zone": False, "pue": False, "project": False}
    tags = {"tags.team": True, "tags.convert.page": False, "tags.user": True}
    found = {field: changes_no_figure(field) for field in {**fields, **tags}}
    assert found == {**fields, **tags}


def test_a_chart_has_the_finest_step_that_it_has_room_for():
    for finer, coarser in zip(CHART_STEPS_S, CHART_STEPS_S[1:], strict=False):
        most_s = finer * MAX_CHART_POINTS
        assert [_chart_step_s(s) for s in (most_s, most_s * 1.001)] == [finer, coarser]
    beyond_s = CHART_STEPS_S[-1] * MAX_CHART_POINTS * 2
    assert _chart_step_s(beyond_s) == 2 * CHART_STEPS_S[-1]
