"""Where a job ran: nodes that disagree, an own supply, the signal asked for, unreal meters."""

from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gramwatt.reports.job import build
from gramwatt.sci.catalog.overlay import OverlayError
from gramwatt.sci.figures.errors import ScoreError
from gramwatt.sci.grid.zones import AnnualIntensity
from gramwatt.sci.records.merge import merge
from gramwatt.sci.score.score import ScoreContext, score
from tests.blocks import words
from tests.documents import CATALOG, journal_of
from tests.documents import scored as scored_by
from tests.journals import H100, FakeGrid, Writer

SOLAR = """
[zones.ROOF]
g_per_kwh = 41
low = 26
high = 60
year = 2025
off_grid = true
source = "array and battery on our roof, life cycle study of the maker"
"""


def scored(*writers, catalog=CATALOG, meter="nvml", **context):
    """The document of such a job."""
    return scored_by(node_records(*writers, meter=meter), catalog=catalog, **context)


def node_records(*writers, meter="nvml"):
    """A job whose writers, one a node, each open with the given fields and read one GPU."""
    records = []
    for n, fields in enumerate(writers):
        board = (f"GPU-{n}", {**H100, "meter": meter}, [(0, 60, 36_000)])
        records += journal_of(board, node=f"n-{n}", **{"zone": None, "pue": None, **fields})
    return records


def codes(doc):
    return [notice.code for notice in doc.notices]


def intensity(zone):
    return CATALOG.zone(zone).intensity.value


def test_nodes_in_different_zones_are_counted_each_in_its_own():
    doc = scored({"zone": "FR", "pue": 1.1}, {"zone": "DE", "pue": 1.1})
    assert (doc.conformance, doc.deviations) == ("conforming", [])
    assert "place-conflict" not in codes(doc)
    assert codes(doc).count("zones-several") == 1
    assert (doc.zone, doc.method.zones) == ("FR", ["FR", "DE"])
    # 36 kJ are 0.01 kWh on each node.
    expected = 0.01 * (intensity("FR") + intensity("DE")) * 1.1
    assert doc.operational_g.value == pytest.approx(expected, rel=1e-12)
    mean = (intensity("FR") + intensity("DE")) / 2
    assert doc.method.intensity_g_per_kwh.value == pytest.approx(mean)
    by_device = {d.device_id: d.intensity_g_per_kwh for d in doc.steps.devices}
    assert by_device == {"GPU-0": [intensity("FR")], "GPU-1": [intensity("DE")]}
    rows = {row.what: row.figure.value for row in doc.method.inputs}
    assert rows["carbon intensity of zone FR (n-0)"] == intensity("FR")
    assert rows["carbon intensity of zone DE (n-1)"] == intensity("DE")
    parts = [(row.symbol, row.of, row.count) for row in doc.method.inputs]
    assert ("I", "zone DE (n-1)", 1) in parts
    assert ("PUE", None, 1) in parts
    boards = next(row for row in doc.method.inputs if row.symbol == "TE")
    assert (boards.of, boards.count) == ("NVIDIA H100 80GB HBM3", 2)
    assert boards.what == f"{boards.name} (2 alike)"
    assert "FR, DE: each node in its own" in words(build(doc, full=True))


def test_a_zone_and_a_region_of_another_zone_are_counted_apart_too():
    doc = scored({"zone": "DE", "pue": 1.1}, {"region": "aws:eu-west-3", "pue": 1.1})
    assert (doc.conformance, doc.method.zones) == ("conforming", ["DE", "FR"])


def test_zones_of_different_resolution_are_joined_each_at_its_own():
    class Mixed:
        """Changing every 20 s in France, one mean in Germany."""

        def points(self, zone, start, end):
            (mean,) = AnnualIntensity(CATALOG).points(zone, start, end)
            if zone != "FR":
                return [mean]
            edges = [start + n * timedelta(seconds=20) for n in range(-1, 5)]
            values = (900, 10, 20, 60, 900)
            return [
                msgspec.structs.replace(
                    mean,
                    start=left,
                    end=right,
                    intensity=mean.intensity.scaled(v / intensity("FR")),
                )
                for left, right, v in zip(edges, edges[1:], values, strict=False)
            ]

    records = node_records({"zone": "FR", "pue": 1.0}, {"zone": "DE", "pue": 1.0})
    doc = scored_by(records, Mixed())
    # 0.01 kWh on each node; in France a third of it in each of three steps of 20 s.
    expected = 0.01 * ((10 + 20 + 60) / 3 + intensity("DE"))
    assert doc.operational_g.value == pytest.approx(expected, rel=1e-9)
    assert sum(day.operational_g.value for day in doc.days) == pytest.approx(expected)
    by_device = {d.device_id: d.intensity_g_per_kwh for d in doc.steps.devices}
    assert by_device["GPU-0"] == pytest.approx([10, 20, 60])
    assert by_device["GPU-1"] == pytest.approx([intensity("DE")] * 3)


@given(st.randoms(use_true_random=False))
def test_the_order_of_arrival_decides_nothing_about_zones(random):
    records = node_records(
        {"zone": "FR", "pue": 1.1}, {"zone": "DE", "pue": 1.1}, {"zone": "PL", "pue": 1.1}
    )
    shuffled = [*records, *records[:4]]
    random.shuffle(shuffled)
    assert scored_by(shuffled) == scored_by(records)


def test_one_node_in_two_zones_is_no_sci_whoever_comes_first():
    for zones in (("FR", "DE"), ("DE", "FR")):
        first, second = Writer("w0"), Writer("w1")
        records = [
            first.job(zone=zones[0], pue=1.1),
            second.job(zone=zones[1]),
            first.device(name="NVIDIA H100 80GB HBM3", units_total=8),
            first.interval(0, 60, 36_000),
            first.end(60),
            second.end(60),
        ]
        doc = scored_by(records)
        assert doc.conformance == "not-sci"
        fault = f"n-1 is said to stand in several zones: {', '.join(zones)}"
        assert doc.deviations == [fault]
        assert codes(doc).count("place-conflict") == 1


def test_a_node_without_a_zone_among_different_ones_is_no_sci():
    doc = scored({"zone": "FR", "pue": 1.1}, {"zone": "DE", "pue": 1.1}, {"pue": 1.1})
    assert doc.conformance == "not-sci"
    assert doc.deviations == ["n-2 names no zone, and others stand in different ones"]


@pytest.mark.parametrize(
    "other",
    [
        {"zone": "FR", "pue": 1.1},
        {"zone": "FRA", "pue": 1.1},
        {"pue": 1.1},
        {"region": "aws:eu-west-3"},
    ],
)
def test_nodes_that_mean_the_same_place_do_not_disagree(other):
    doc = scored({"zone": "FR", "pue": 1.1}, other)
    assert (doc.conformance, doc.deviations) == ("conforming", [])
    assert "place-conflict" not in codes(doc)


def test_a_wrapper_and_its_process_on_one_node_are_one_place():
    first, second = Writer("w0"), Writer("w1")
    records = [
        first.job(role="command", zone="FR", pue=1.1),
        second.job(role="track", zone="DE"),
        first.device(name="NVIDIA H100 80GB HBM3", units_total=8),
        first.interval(0, 60, 36_000),
        first.end(60),
        second.end(60),
    ]
    doc = scored_by(records)
    assert (doc.zone, doc.conformance) == ("FR", "conforming")


def test_nodes_of_different_pue_are_counted_each_with_its_own():
    doc = scored({"zone": "FR", "pue": 1.1}, {"zone": "FR", "pue": 1.4})
    assert (doc.conformance, doc.deviations) == ("conforming", [])
    # 36 kJ are 0.01 kWh on each node, so the mean of the PUE by energy is 1.25.
    assert doc.method.pue.value == pytest.approx(1.25)
    france = intensity("FR")
    assert doc.operational_g.value == pytest.approx(0.01 * france * (1.1 + 1.4))
    rows = {row.what: row.figure.value for row in doc.method.inputs}
    assert (rows["PUE of n-0"], rows["PUE of n-1"]) == (1.1, 1.4)
    assert {row.device_id: row.pue for row in doc.steps.devices} == {"GPU-0": 1.1, "GPU-1": 1.4}
    assert codes(doc).count("pue-several") == 1


def test_an_own_supply_has_its_own_factor_and_conforms():
    catalog = CATALOG.with_overlay(SOLAR)
    doc = scored({"zone": "roof", "pue": 1.0}, catalog=catalog)
    # 36 kJ are 0.01 kWh, of 41 g/kWh.
    assert doc.operational_g.value == pytest.approx(0.41)
    assert (doc.conformance, doc.method.supply) == ("conforming", "off-grid")
    assert scored({"zone": "FR", "pue": 1.0}).method.supply == "grid"
    named = {row.what: row.figure.source for row in doc.method.inputs}
    source = named["carbon intensity of the own supply, not connected to a grid"]
    assert "array and battery on our roof" in source
    assert catalog.zone("ROOF").to_doc()["supply"] == "off-grid"


@pytest.mark.parametrize(
    "source",
    [
        "100 % renewable by PPA",
        "supplier, Guarantees of Origin cancelled",
        "RECs of our utility",
        "market-based factor of 2025",
        "grid mean less offsets",
    ],
)
def test_a_zone_whose_source_is_a_contract_is_refused(source):
    text = SOLAR.replace("array and battery on our roof, life cycle study of the maker", source)
    with pytest.raises(OverlayError, match=r"\[zones.ROOF\] source names a market-based"):
        CATALOG.with_overlay(text)


def test_a_score_of_another_signal_or_basis_than_asked_for_is_refused():
    marginal = FakeGrid(600, signal="marginal", basis="direct")
    writer = Writer()
    job = merge([writer.job(zone="FR", pue=1.1), writer.end(60)])
    with pytest.raises(ScoreError, match="average, lifecycle intensity, and the data are marginal"):
        score(job, ScoreContext(CATALOG, marginal))
    doc = score(job, ScoreContext(CATALOG, marginal, signal="marginal", basis="direct"))
    method = doc.method
    assert (method.intensity_signal, method.intensity_basis) == ("marginal", "direct")
    with pytest.raises(ScoreError, match="marginal, direct intensity, and the data are average"):
        scored({"zone": "FR"}, signal="marginal", basis="direct")


def test_readings_of_no_hardware_are_no_sci():
    doc = scored({"zone": "FR", "pue": 1.1}, meter="nvml-synthetic")
    assert doc.conformance == "not-sci"
    assert doc.deviations == ["readings come from a synthetic meter, not from hardware"]
    assert codes(doc).count("meter-synthetic") == 1


def test_the_meters_own_remark_suffices_to_make_it_no_sci():
    said = "meter-synthetic: GPU readings come from nvml-synthetic, not from hardware."
    doc = scored({"zone": "FR", "pue": 1.1, "notices": (said,)})
    assert doc.conformance == "not-sci"
    assert codes(doc).count("meter-synthetic") == 1


def test_both_zones_of_a_region_are_shown_where_sources_differ():
    """us-west-2: PACW by Electricity Maps, BPAT by the Green Software Foundation's table."""
    doc = scored({"region": "aws:us-west-2", "zone": None, "pue": 1.1})
    (notice,) = [n for n in doc.notices if n.code == "zone-alternative"]
    used, other = (f"{intensity(zone):.0f}" for zone in ("US-NW-PACW", "US-NW-BPAT"))
    assert notice.message == (
        f"aws:us-west-2 lies in US-NW-PACW ({used} gCO2e/kWh a year), by another source in "
        f"US-NW-BPAT ({other} gCO2e/kWh a year): US-NW-PACW is used."
    )
    assert doc.zone == "US-NW-PACW"
    declared = scored({"region": "aws:us-west-2", "zone": "US-NW-BPAT", "pue": 1.1})
    assert "zone-alternative" not in codes(declared)
    assert "zone-alternative" not in codes(scored({"region": "aws:us-east-1", "zone": None}))


@pytest.mark.parametrize(
    "region", [region.id for region in CATALOG.all_regions() if region.zone_other]
)
def test_every_other_zone_is_known(region):
    assert "zone-alternative" in codes(scored({"region": region, "zone": None}))
