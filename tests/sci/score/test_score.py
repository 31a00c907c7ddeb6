"""The score, against arithmetic done by hand."""

import pytest

from gramwatt.sci.embodied.te import accelerator_te
from gramwatt.sci.figures.errors import ScoreError
from gramwatt.sci.figures.quantity import Quantity, per_unit
from gramwatt.sci.score.boundary import NOT_JUDGED
from tests.documents import CATALOG, journal_of, scored, steady_job
from tests.journals import H100, FakeGrid, Writer, at
from tests.truth import coverage, draws

LIFE_S = 4 * 8760 * 3600


def gpu_job(**job):
    """One H100 for 60 s at 700 W, 1000 images, in Germany with PUE 1.1."""
    read = [(10 * n, 10 * n + 10, 7000) for n in range(6)]
    head = {"units": ("image",), "pue": 1.1, **job}
    return journal_of(("GPU-1", H100, read), more=[lambda writer: writer.count(1000)], **head)


def h100(*intervals, device_id="GPU-1", **device):
    """An H100 and its intervals as start, end and joules; a minute at 700 W unless given."""
    return device_id, {**H100, **device}, intervals or [(0, 60, 42_000)]


def h100s(count):
    return [h100(device_id=f"GPU-{n}") for n in range(count)]


def test_every_term_by_hand():
    doc = scored(gpu_job())
    energy = 42_000 / 3.6e6
    intensity = CATALOG.zone("DE").intensity.value
    operational = energy * intensity * 1.1
    # One H100 (164 kg, NVIDIA) and an eighth of a server (5700 kg / 8), 60 s of 4 years.
    embodied = (164_000 + 5_700_000 / 8) * 60 / LIFE_S
    assert doc.energy_kwh.value == pytest.approx(energy)
    assert doc.operational_g.value == pytest.approx(operational)
    assert doc.embodied_g.value == pytest.approx(embodied)
    assert doc.total_g.value == pytest.approx(operational + embodied)
    [row] = doc.sci
    assert (row.unit, row.count) == ("image", 1000)
    assert row.g_per_unit.value == pytest.approx((operational + embodied) / 1000)
    assert row.g_per_unit.unit == "gCO2e/image"
    assert (doc.conformance, doc.deviations) == ("conforming", [])


def test_ranges_by_hand():
    doc = scored(gpu_job(), FakeGrid(400))
    energy = 42_000 / 3.6e6
    # A counter is taken as +-5 %; the grid here and the declared PUE have no spread.
    assert doc.operational_g.low == pytest.approx(energy * 0.95 * 400 * 1.1)
    assert doc.operational_g.high == pytest.approx(energy * 1.05 * 400 * 1.1)
    # H100: 131 to 273 kg (164 published). Server: 3000 to 6500 kg. Life: 3 to 6 years.
    inputs = draws()
    truths = [
        (inputs.one(164_000, 131_000, 273_000) + inputs.one(5_700_000, 3_000_000, 6_500_000) / 8)
        * 60
        / (inputs.one(4, 3, 6) * 8760 * 3600)
        for _ in range(20_000)
    ]
    embodied = doc.embodied_g
    assert 0.78 <= coverage(embodied.low, embodied.high, truths) <= 0.82


def test_energy_meets_the_intensity_of_its_own_hour():
    # 1 kWh in the first hour, 2 kWh in the second.
    board = h100((0, 1800, 3.6e6), (3600, 7200, 2 * 3.6e6))
    doc = scored(journal_of(board, end_s=7200), FakeGrid(100, 400))
    # Mean energy times mean intensity would give 3 x 250 = 750.
    assert doc.operational_g.value == pytest.approx(1 * 100 + 2 * 400)
    assert doc.method.intensity_g_per_kwh.value == pytest.approx(300)


def test_an_interval_across_two_steps_is_shared_by_time():
    board = h100((2700, 6300, 4 * 3.6e6))  # a quarter of it before the step
    doc = scored(journal_of(board, end_s=6300), FakeGrid(100, 200))
    assert doc.operational_g.value == pytest.approx(1 * 100 + 3 * 200)


def test_pue_is_applied_once_and_to_energy_never():
    one, two = scored(gpu_job(pue=1.0)), scored(gpu_job(pue=2.0))
    assert two.operational_g.value == pytest.approx(2 * one.operational_g.value)
    assert two.energy_kwh == one.energy_kwh
    assert two.embodied_g == one.embodied_g


def test_an_undeclared_pue_is_a_listed_deviation_with_a_range():
    doc = scored(gpu_job(pue=None))
    pue = doc.method.pue
    assert (pue.low, pue.value, pue.high) == (1.1, 1.56, 2.19)
    assert doc.conformance == "conforming-with-deviations"
    assert "PUE" in doc.deviations[0]
    assert "pue-undeclared" in codes(doc)


@pytest.mark.parametrize(
    ("part", "scheduler", "pue"),
    [
        ("NVIDIA H100 80GB HBM3", {}, 1.56),  # a board of servers alone
        ("NVIDIA L4", {"kubernetes_pod": "p"}, 1.56),
        ("NVIDIA GeForce RTX 4090", {}, 1.0),
        ("NVIDIA GeForce RTX 4090", {"slurm_job_id": "7"}, 1.56),
        ("NVIDIA GeForce RTX 4090", {"torchrun_run_id": "none", "world_size": "2"}, 1.0),
        ("NVIDIA GeForce RTX 4090", {"slurm_job_id": "7", "world_size": "2"}, 1.56),
        ("a part that the catalog lacks", {}, 1.0),
    ],
)
def test_an_undeclared_pue_is_that_of_what_is_known_of_the_site(part, scheduler, pue):
    device = ("GPU-1", {"name": part}, [(0, 60, 9_000)])
    document = scored(journal_of(device, pue=None, scheduler=scheduler))
    assert document.method.pue.value == pue


@pytest.mark.parametrize(
    ("processor", "pue"),
    [
        ("AMD EPYC 7513 32-Core Processor", 1.56),
        ("Intel(R) Xeon(R) Platinum 8480C", 1.56),
        ("Intel(R) Xeon(R) CPU E5-2686 v4 @ 2.30GHz", 1.56),
        ("Intel(R) Xeon(R) W-2295 CPU @ 3.00GHz", 1.0),
        ("Intel(R) Xeon(R) E-2288G CPU @ 3.70GHz", 1.0),
        ("AMD Ryzen 9 7950X 16-Core Processor", 1.0),
        ("Intel(R) Core(TM) i7-8700 CPU @ 3.20GHz", 1.0),
    ],
)
def test_a_processor_of_servers_shows_a_data_centre(processor, pue):
    cpu = {"device_class": "cpu", "units": 8, "meter": "rapl", "name": processor}
    document = scored(journal_of(("cpu-0", cpu, [(0, 60, 9_000)]), pue=None))
    assert document.method.pue.value == pue


def test_a_cloud_region_that_is_not_known_is_a_data_centre_all_the_same():
    first, _, *rest = gpu_job(zone="TW", pue=None, region="aws:moon-2")
    doc = scored([first, Writer(first_seq=2).device(name="NVIDIA GeForce RTX 4090"), *rest])
    assert doc.method.pue.value == 1.56
    assert "region-unmapped" in codes(doc)


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ({"zone": "california"}, "california is taken as the grid zone US-CAL-CISO (CAISO)."),
        ({"region": "us-east-1a"}, "us-east-1a is taken as aws:us-east-1 (N. Virginia)."),
        ({"zone": "de"}, None),
        ({"zone": "DEU"}, None),
        ({"region": "AWS:eu-west-1"}, None),
    ],
)
def test_what_a_place_is_taken_as_is_said(place, said):
    doc = scored(gpu_job(**{"zone": None, "pue": 1.2, **place}))
    taken = [notice.message for notice in doc.notices if notice.code == "place-taken"]
    assert taken == ([said] if said else [])


def test_a_cloud_region_gives_its_zone_and_its_published_pue():
    region = CATALOG.region("aws:eu-west-1")
    doc = scored(gpu_job(zone=None, pue=None, region="aws:eu-west-1"))
    assert doc.zone in (region.zone, region.country)
    assert doc.method.pue.value == region.pue.value
    assert doc.conformance == "conforming"


def test_without_a_zone_the_world_stands_in_and_it_is_no_sci():
    doc = scored(gpu_job(zone=None))
    world = CATALOG.world().intensity.value
    assert doc.operational_g.value == pytest.approx(42_000 / 3.6e6 * world * 1.1)
    assert doc.conformance == "not-sci"
    assert doc.zone is None
    assert "zone-unknown" in codes(doc)
    assert doc.data_quality.intensity == {"world": 1.0}


def test_a_device_without_a_reading_makes_the_energy_unknown_not_smaller():
    doc = scored(journal_of(h100(), ("GPU-2", H100, [])))
    for field in ("energy_kwh", "operational_g", "total_g"):
        assert getattr(doc, field) is None
    assert doc.sci[0].g_per_unit is None
    assert doc.conformance == "not-sci"
    assert doc.data_quality.grade == "D"
    assert [row.energy_j is None for row in doc.devices] == [False, True, True]
    assert "energy-unmeasured" in codes(doc)


def test_readings_that_leave_out_most_of_the_reserved_time_are_named():
    """GPU-1 was read in the first and the last hour of ten, GPU-2 all the time but five minutes."""

    def notices(*, ended, others=0):
        boards = [
            h100((0, 3600, 42_000), (32_400, 36_000, 42_000)),
            h100((300, 36_000, 42_000), device_id="GPU-2"),
            *(h100((0, 30_000, 42_000), device_id=f"GPU-{n}") for n in range(3, 3 + others)),
        ]
        records = journal_of(*boards, end_s=36_000)
        doc = scored(records if ended else records[:-1])
        return [n for n in doc.notices if n.code == "meter-gap"]

    [notice] = notices(ended=True)
    assert "cover 2 h 0 min of the 10 h 0 min" in " ".join(notice.message.split())
    assert "more device" not in notice.message
    assert notice.field == "devices.GPU-1.energy_j"
    for others, told in ((1, "1 more device."), (2, "2 more devices.")):
        [notice] = notices(ended=True, others=others)
        assert notice.message.endswith(f"The same applies to {told}")
    assert notices(ended=False) == []


def test_a_job_without_any_reading_is_unknown():
    doc = scored(journal_of(end_s=5))
    assert doc.energy_kwh is None
    assert doc.conformance == "not-sci"


def test_n_devices_are_n_times_one():
    one, eight = (scored(journal_of(*h100s(n))) for n in (1, 8))
    for term in ("energy_kwh", "operational_g", "embodied_g", "total_g"):
        assert getattr(eight, term).value == pytest.approx(8 * getattr(one, term).value)
    for end in ("low", "high"):
        alone = getattr(one.embodied_g, end)
        assert getattr(eight.embodied_g, end) == pytest.approx(8 * alone)
    # Boards of a type in a job err alike.
    energy = eight.energy_kwh
    assert energy.high / energy.value == pytest.approx(1.05)


def test_slices_of_a_device_sum_to_the_device():
    two, five, whole = (slice_of(share).embodied_g.value for share in (2 / 7, 5 / 7, 1.0))
    assert two + five == pytest.approx(whole)


def slice_of(share):
    return scored(journal_of(h100((0, 60, 42_000 * share), share=share)))


@pytest.mark.parametrize("jobs", [1, 2, 4, 8])
def test_the_jobs_of_a_full_host_sum_to_the_host(jobs):
    whole, part = (scored(journal_of(*h100s(n))).embodied_terms for n in (8, 8 // jobs))
    host = {row.label: row for row in whole}["host, the share of 8 of 8 accelerators"]
    assert host.te_g.value == pytest.approx(5_700_000)
    assert "8 shares of 8" in host.stages
    for name in ("value", "low", "high"):
        sums = [sum(getattr(row.embodied_g, name) for row in rows) for rows in (whole, part)]
        assert jobs * sums[1] == pytest.approx(sums[0])


def test_slices_of_a_device_carry_its_share_of_the_host_between_them():
    def host(share):
        return next(row for row in slice_of(share).embodied_terms if row.device_id == "n-1-host")

    parts = [host(share) for share in (1 / 7, 2 / 7, 4 / 7)]
    grams = sum(part.embodied_g.value for part in parts)
    assert grams == pytest.approx(host(1.0).embodied_g.value)
    assert [part.resources_total for part in parts] == [8, 8, 8]


def test_jobs_on_a_workstation_of_two_cards_sum_to_it():
    card = {"name": "NVIDIA GeForce RTX 4090", "units_total": 2}
    host = {"device_class": "cpu", "name": "AMD EPYC 7763 64-Core Processor", "units": 128.0}

    def embodied(gpus):
        cards = [(f"GPU-{n}", card, [(0, 60, 24_000)]) for n in range(gpus)]
        return scored(journal_of(("cpu", host, [(0, 60, 6_000)]), *cards)).embodied_g.value

    assert 2 * embodied(1) == pytest.approx(embodied(2))


def test_jobs_beside_each_other_on_a_host_without_limits_sum_to_it():
    def host_g(share, units):
        cpu = {"device_class": "cpu", "name": "EPYC 7763", "units": units, "units_total": 64}
        cpu["share"] = share
        doc = scored(journal_of(("cpu-0", cpu, [(0, 3600, 1e5)]), end_s=3600, zone="FR"))
        [host] = [row for row in doc.devices if row.device_class == "host"]
        return host.embodied_g.value

    whole_g = host_g(1.0, 64)
    assert host_g(0.25, 64) + host_g(0.75, 64) == pytest.approx(whole_g)
    # A limit of 16 of 64 threads is a quarter of the host, and is not divided once more.
    assert host_g(0.25, 16) == pytest.approx(whole_g / 4)
    assert host_g(0.125, 16) == pytest.approx(whole_g / 8)


def test_less_energy_cleaner_power_fewer_devices_and_longer_life_each_lower_the_score():
    base = scored(gpu_job(), FakeGrid(400)).total_g.value
    assert scored(gpu_job(), FakeGrid(300)).total_g.value < base
    assert scored(gpu_job(pue=1.05), FakeGrid(400)).total_g.value < base
    longer = Quantity.exact(6, "years", "declared", "test")
    assert scored(gpu_job(), FakeGrid(400), lifetime=longer).total_g.value < base


def test_hardware_the_catalog_does_not_know_is_a_labelled_estimate():
    doc = scored(journal_of(("GPU-1", {"name": "NVIDIA Imaginary 9000"}, [(0, 60, 42_000)])))
    assert "hardware-unknown" in codes(doc)
    assert doc.devices[0].hardware is None
    assert doc.devices[0].embodied_g.kind == "estimated"
    spread = doc.devices[0].embodied_g
    assert spread.high / spread.low > 4


@pytest.mark.parametrize(
    ("device", "terms", "code"),
    [
        # A module of its maker that no row has: the small computer that it is, without a host.
        (
            {"name": "NVIDIA Jetson AGX Nova", "device_class": "module", "includes_host": True},
            [(45_000, 10_500, 96_000)],
            "hardware-unknown",
        ),
        (
            {"name": "Apple M9 Pro", "device_class": "module", "includes_host": True},
            [(158_000, 71_000, 261_000)],
            "hardware-unknown",
        ),
        # Two forms: the commonest is counted, and the range holds both; so does that of the host.
        ({"name": "NVIDIA H800"}, None, "hardware-ambiguous"),
        ({"name": "NVIDIA H800", "power_limit_w": 700.0}, None, None),
    ],
)
def test_a_device_counts_as_what_its_name_may_mean(device, terms, code):
    doc = scored(journal_of(("GPU-1", device, [(0, 60, 100)]), pue=None))
    counted = [(t.te_g.value, t.te_g.low, t.te_g.high) for t in doc.embodied_terms]
    if terms is not None:
        assert counted == terms
    else:
        own = accelerator_te(CATALOG.hardware("nvidia-h800-sxm5-80"))
        assert counted[0][0] == own.te_g.value
        assert (counted[0][1] < own.te_g.low) == (code is not None)
    named = {"hardware-unknown", "hardware-ambiguous"} & set(codes(doc))
    assert named == ({code} if code else set())


def test_units_counted_by_several_ranks_add_up():
    a, b = Writer("w1"), Writer("w2")
    records = [
        a.job(units=("image",), zone="DE", pue=1.0),
        b.job(units=("image",), zone="DE", pue=1.0),
        a.device(**H100),
        a.interval(0, 60, 42_000),
        a.count(600),
        b.count(400),
        b.count(4096, unit="token"),
        a.end(60),
        b.end(60),
    ]
    doc = scored(records)
    assert [(row.unit, row.count) for row in doc.sci] == [("image", 1000), ("token", 4096)]


def test_without_a_unit_r_is_one_job_and_that_is_a_valid_score():
    doc = scored([record for record in gpu_job(units=()) if record.TYPE != "count"])
    assert [(row.unit, row.count) for row in doc.sci] == [("job", 1)]
    assert doc.conformance == "conforming"
    assert "unit-undeclared" in codes(doc)


def test_a_unit_that_was_never_counted_is_said_and_not_zero():
    doc = scored([record for record in gpu_job() if record.TYPE != "count"])
    assert [row.unit for row in doc.sci] == ["job"]
    assert "unit-not-counted" in codes(doc)


def test_r_of_zero_has_no_meaning():
    with pytest.raises(ScoreError, match="above zero"):
        per_unit(Quantity.exact(1, "gCO2e", "measured", "x"), 0, "image")


def test_days_sum_to_the_job():
    sixteen_hours = 16 * 3600  # T0 is 08:00, so midnight is at second 57 600
    board = h100(*((s, s + 300, 300 * 700) for s in range(0, sixteen_hours * 2, 300)))
    counts = [
        lambda writer: writer.count(10, seconds=100),
        lambda writer: writer.count(30, seconds=sixteen_hours + 100),
    ]
    head = {"units": ("image",), "pue": 1.2, "end_s": sixteen_hours * 2}
    doc = scored(journal_of(board, more=counts, **head))
    assert [day.day for day in doc.days] == ["2026-05-01", "2026-05-02"]
    # The 30 were counted from second 100 to second 57 700, of which 57 500 lie before midnight.
    images = [10 + 30 * 57_500 / 57_600, 30 * 100 / 57_600]
    assert [day.counts["image"] for day in doc.days] == pytest.approx(images, rel=1e-12)
    for term in ("energy_kwh", "operational_g", "embodied_g"):
        assert sum(getattr(day, term).value for day in doc.days) == pytest.approx(
            getattr(doc, term).value
        )


def test_the_last_point_of_the_series_ends_with_the_readings():
    points = scored(journal_of(h100((0, 10, 7000), (10, 12, 1400)), end_s=12)).series
    assert [point.end[17:19] for point in points] == ["10", "12"]


def test_the_series_has_the_mean_utilisation_of_the_devices_that_report_it():
    boards = [
        h100((0, 10, 7000, {"utilisation_mean": 0.9})),
        h100((0, 5, 3500, {"utilisation_mean": 0.3}), device_id="GPU-2"),
        h100((0, 20, 7000), device_id="GPU-3"),
    ]
    points = scored(journal_of(*boards, end_s=20)).series
    # In the first 10 s: (0.9 x 10 s + 0.3 x 5 s) / 15 s; then only the third, which reports none.
    assert [point.utilisation for point in points] == [pytest.approx(0.7), None]


def test_a_long_job_has_a_series_of_bounded_length():
    week = 7 * 24 * 3600
    doc = scored(journal_of(h100(*((s, s + 300, 1000) for s in range(0, week, 300))), end_s=week))
    assert len(doc.series) == 7 * 24
    assert sum(point.energy_j for point in doc.series) == pytest.approx(week / 300 * 1000)


@pytest.mark.parametrize(
    ("kind", "intensity", "grade"),
    [
        # The server's share of M is modelled, so no job on it reaches A.
        ("measured", FakeGrid(400), "B"),
        ("measured", FakeGrid(400, quality="annual"), "B"),
        ("integrated", FakeGrid(400), "C"),
        ("estimated", FakeGrid(400), "D"),
    ],
)
def test_the_grade_follows_how_things_are_known(kind, intensity, grade):
    board = h100((0, 60, 42_000, {"kind": kind}))
    assert scored(journal_of(board), intensity).data_quality.grade == grade


def test_a_lost_job_says_so():
    writer, recovery = Writer(), Writer("r-1")
    records = [writer.job(zone="DE", pue=1.0), writer.device(**H100)]
    records += [writer.interval(0, 10, 7000)]
    records += [recovery.job(role="recovery", resumes="w1", started_at=at(900))]
    doc = scored([*records, recovery.end(10, "lost")])
    assert (doc.state, doc.duration_s) == ("lost", 10)
    assert "job-lost" in codes(doc)


def test_the_document_names_what_widens_its_range_most():
    doc = scored(gpu_job(pue=None))
    assert doc.method.largest_uncertainty.startswith("carbon intensity")
    clean = scored(gpu_job(), FakeGrid(1)).method.largest_uncertainty
    assert clean.startswith("hardware lifetime")


def test_scoring_is_a_function():
    assert scored(gpu_job()) == scored(list(reversed(gpu_job())))


def codes(doc):
    return {notice.code for notice in doc.notices}


def test_what_is_left_out_is_listed_with_its_reason():
    tags = {"inception": "below 1 % of training, a day of meetings; threshold 5 %"}
    method = steady_job(kind="training", tags=tags).method
    excluded = method.boundary_excluded
    assert "network and shared storage: no meter and no catalog figure yet" in excluded
    assert f"inception of the model: {tags['inception']}" in excluded
    assert f"retirement of the model: {NOT_JUDGED}" in excluded
    assert len(method.exclusions) == len(excluded)
    excluded = steady_job(kind="inference").method.boundary_excluded
    assert not any(text.startswith("inception") for text in excluded)
    assert f"retirement of the model: {NOT_JUDGED}" in excluded
    excluded = steady_job(kind="other").method.boundary_excluded
    assert not any(" of the model: " in text and "retirement" in text for text in excluded)
