"""Cloud instances: names, shares of devices and hosts, prices, and estimates by instance."""

import json
from collections import Counter

import pytest

from gramwatt.sci.catalog.catalog import load_catalog
from gramwatt.sci.catalog.instances import WITHOUT_ACCELERATOR, NameRule, named_machines
from gramwatt.sci.catalog.names import find_matches
from gramwatt.sci.embodied.te import host_fraction, instance_host_te, socket_te
from gramwatt.sci.estimate.estimate import estimate
from gramwatt.sci.estimate.request import parse_estimate_request
from gramwatt.sci.figures.csv_data import rows
from gramwatt.sci.figures.errors import AmbiguousName, LookupFailed, ScoreError

CATALOG = load_catalog()


def answer(**question):
    return estimate(parse_estimate_request(question), CATALOG)


@pytest.fixture
def catalog():
    return CATALOG


def test_no_instance_is_lost(catalog):
    assert Counter(one.provider for one in catalog.all_instances()) == {
        "aws": 99,
        "azure": 69,
        "gcp": 66,
        "google-colab": 6,
        "snowflake": 11,
        "coreweave": 8,
        "oci": 21,
        "nebius": 17,
        "lambda": 16,
        "ibm": 10,
        "scaleway": 16,
        "hetzner": 3,
        "ovh": 12,
        "digitalocean": 10,
    }


@pytest.mark.parametrize(
    ("name", "first", "members"),
    [
        ("P2", "aws:p2.xlarge", 3),
        ("Amazon EC2 P4", "aws:p4d.24xlarge", 2),
        ("G4", "aws:g4dn.xlarge", 7 + 5 + 7),
        ("G5", "aws:g5.xlarge", 8),
        ("Inf2", "aws:inf2.xlarge", 4),
        ("NV Series VM", "azure:Standard_NV6", 3),
        ("NVv3 Series", "azure:Standard_NV12s_v3", 3),
        ("NCasT4_v3-series", "azure:Standard_NC4as_T4_v3", 4),
        ("NVadsA10 v5Series", "azure:Standard_NV6ads_A10_v5", 6),
        ("A2", "gcp:a2-highgpu-1g", 9),
        ("G2", "gcp:g2-standard-4", 8),
        ("N1", "gcp:n1+k80", 5),
        ("Colab", "google-colab:colab-k80", 6),
        ("TPU v5p pod", "gcp:v5p-8", 8),
        ("Snowpark Container Services", "snowflake:GPU_NV_S", 11),
    ],
)
def test_a_family_answers_with_its_members(catalog, name, first, members):
    with pytest.raises(AmbiguousName) as caught:
        catalog.instance(name)
    assert caught.value.code == "ambiguous-instance"
    assert (caught.value.choices[0], len(caught.value.choices)) == (first, members)


@pytest.mark.parametrize("rule", rows(NameRule), ids=lambda rule: rule.example)
def test_a_rule_reads_its_example(catalog, rule):
    """The name means a machine with so many of one part, or one for each part that fits."""
    says = next(named_machines(rule.example))
    meant, _ = find_matches(catalog.instance, rule.example)
    assert {one.count for one in meant} == {says.count}
    parts = {part.id for part in find_matches(catalog.hardware, says.part)[0]}
    assert {one.hardware for one in meant} <= parts
    assert all(catalog.instance(one.id).hardware == one.hardware for one in meant)


@pytest.mark.parametrize(
    ("name", "count", "parts"),
    [
        ("8xH100", 8, ["nvidia-h100-sxm5-80", "nvidia-h100-pcie-80", "nvidia-h100-nvl-94"]),
        ("gpu-h100x1-80gb", 1, ["nvidia-h100-sxm5-80", "nvidia-h100-pcie-80"]),
        ("gpu-mi355x8-2304gb-spot", 8, ["amd-mi355x"]),
        ("8x_A100-80GB-SXM_SECURE", 8, ["nvidia-a100-sxm4-80"]),
        ("gx3d-48x240x2a100p", 2, ["nvidia-a100-pcie-40", "nvidia-a100-pcie-80"]),
        ("ecs.gn7i-c32g1.16xlarge", 2, ["nvidia-a10"]),
        ("h100-1520", 4, ["nvidia-h100-sxm5-80", "nvidia-h100-pcie-80"]),
        ("RTX4090:2", 2, ["nvidia-rtx-4090"]),
    ],
)
def test_names_that_say_count_and_part(catalog, name, count, parts):
    meant, _ = find_matches(catalog.instance, name)
    assert [one.hardware for one in meant] == parts
    assert {one.count for one in meant} == {count}


def test_a_machine_of_nobody_takes_a_region_of_any_cloud():
    there = answer(instance="8xB200", hours=1, region="aws:us-east-1")
    assert there.embodied_g.value == pytest.approx(
        answer(hardware="nvidia-b200", count=8, hours=1, region="aws:us-east-1").embodied_g.value
    )
    with pytest.raises(LookupFailed) as caught:
        answer(instance="8xB200", hours=1, region="nowhere-1")
    assert "any:" not in caught.value.message


@pytest.mark.parametrize("name", ["0xH100", "100xH100", "4x4", "H100x", "x8", "h100-381"])
def test_a_count_that_no_machine_has_means_nothing(catalog, name):
    with pytest.raises(LookupFailed) as caught:
        catalog.instance(name)
    assert not isinstance(caught.value, AmbiguousName)


@pytest.mark.parametrize("name", ["azure p4d.24xlarge", "ml.gd-1xgh200", "H100", "", "p4d.24xlarg"])
def test_another_clouds_instance_and_near_misses_never_match(catalog, name):
    with pytest.raises(LookupFailed) as caught:
        catalog.instance(name)
    assert not isinstance(caught.value, AmbiguousName)


def test_every_name_means_its_own_row_and_every_reference_is_there(catalog):
    for one in catalog.all_instances():
        for name in (one.id, one.name, f"{one.provider} {one.name}"):
            assert catalog.instance(name) is one, name
        if one.provider == "aws":
            assert catalog.instance(f"ml.{one.name}") is one
        assert catalog.hardware(one.hardware).id == one.hardware
        assert one.host is None or catalog.instance(one.host).id == one.host


def hosts():
    return [one for one in CATALOG.all_instances() if one.host == one.id]


def embodied_g(instance, **more):
    """M of an instance over its whole expected life [gCO2e], which is its TE."""
    doc = answer(instance=instance, hours=4 * 8760, zone="FR", **more)
    return doc.embodied_g.value


def power_kwh(instance, **more):
    energy = answer(instance=instance, hours=1, zone="FR", **more).energy_kwh
    return energy.value if energy else None


def members(host):
    return [
        one
        for one in CATALOG.all_instances()
        if one.host == host.id and one.hardware == host.hardware and one.count is not None
    ]


def fraction(instance, host):
    figure = host_fraction(instance, host)
    return figure.value * (instance.count or 1)


@pytest.mark.parametrize("host", hosts(), ids=lambda host: host.id)
def test_as_many_instances_as_a_host_holds_never_have_more_than_the_host(host):
    """The host itself is one whole; n of a size that its devices, threads and memory hold, less."""
    assert host.count is not None
    assert fraction(host, host) == pytest.approx(1.0)
    for one in members(host):
        assert one.count is not None
        uses = [
            one.count * one.share / (host.count * host.share),
            one.vcpu / host.vcpu if one.vcpu and host.vcpu else 0,
            one.host_memory_gib / host.host_memory_gib
            if one.host_memory_gib and host.host_memory_gib
            else 0,
        ]
        assert int(1 / max(uses) + 1e-9) * fraction(one, host) <= 1 + 1e-9, one.id


def test_a_host_is_divided_by_threads_and_memory_and_its_devices_by_devices():
    """g4dn.metal: 8 T4, 96 threads, 384 GiB; xlarge has 4 and 16, 16xlarge 64 and 256."""
    metal, t4 = CATALOG.instance("aws:g4dn.metal"), 62_850
    xlarge, largest = (CATALOG.instance(f"aws:g4dn.{size}") for size in ("xlarge", "16xlarge"))
    assert fraction(xlarge, metal) == pytest.approx(1 / 24)
    assert fraction(largest, metal) == pytest.approx(2 / 3)
    host_g = embodied_g("aws:g4dn.metal") - 8 * t4
    for one in (xlarge, largest):
        expected = t4 + fraction(one, metal) * host_g
        assert embodied_g(one.id) == pytest.approx(expected, rel=1e-3), one.id
    # 24 of the smallest size have its threads and memory; they add up to the host's power too.
    t4_kwh = 70 * 0.70 / 1000
    host_kwh = (power_kwh("aws:g4dn.metal") or 0) - 8 * t4_kwh
    assert 24 * ((power_kwh("aws:g4dn.xlarge") or 0) - t4_kwh) == pytest.approx(host_kwh)


def test_the_host_of_instances_by_hand():
    """g5.48xlarge: AMD EPYC 7R32 of 96 threads, 192 vCPU, so two sockets; 768 GiB of memory."""
    cpu = CATALOG.cpu("amd-epyc-7r32")
    part = instance_host_te(CATALOG, CATALOG.instance("aws:g5.xlarge"))
    sockets = 192 / cpu.threads
    expected = sockets * socket_te(cpu).te_g.value + 768 * 1400 + 150_000 + 6_700
    assert part.te_g.value == pytest.approx(expected * (4 / 192 + 16 / 768) / 2)
    assert part.te_g.high >= expected / 8  # by devices
    assert "aws:g5.48xlarge" in part.te_g.source
    server = instance_host_te(CATALOG, CATALOG.instance("aws:p5.4xlarge"))
    assert server.te_g.value == pytest.approx(5_700_000 * (16 / 192 + 256 / 2048) / 2)


def test_an_instance_stands_for_hardware_count_and_share():
    whole = answer(instance="aws:p4d.24xlarge", hours=10, zone="FR", pue=1)
    by_parts = answer(hardware="nvidia-a100-sxm4-40", count=8, hours=10, zone="FR", pue=1)
    assert whole.energy_kwh == by_parts.energy_kwh
    for end in ("value", "low", "high"):
        assert getattr(whole.embodied_g, end) == pytest.approx(getattr(by_parts.embodied_g, end))
    assert whole.embodied_g.source == by_parts.embodied_g.source
    assert (whole.method.hardware, whole.method.instance) == (
        "nvidia-a100-sxm4-40",
        "aws:p4d.24xlarge",
    )
    sixth = answer(instance="NV6ads_A10_v5", hours=10, zone="FR", pue=1, host=False)
    card = answer(hardware="nvidia-a10", hours=10, zone="FR", pue=1, host=False)
    for field in ("energy_kwh", "embodied_g", "operational_g"):
        assert 6 * getattr(sixth, field).value == pytest.approx(getattr(card, field).value)
    assert sixth.device_hours.value == 10


def test_count_counts_devices_of_one_or_several_instances():
    one = answer(instance="aws:p4d.24xlarge", hours=1, zone="FR")
    four = answer(instance="aws:p4d.24xlarge", count=32, hours=1, zone="FR")
    assert four.device_hours.value == 32
    assert four.total_g.value == pytest.approx(4 * one.total_g.value)
    with pytest.raises(ScoreError, match="24 for three instances") as caught:
        answer(instance="aws:p4d.24xlarge", count=4, hours=1)
    assert caught.value.code == "bad-count"


def test_a_count_that_the_user_chooses_is_asked_for_and_held_to_its_range():
    row = CATALOG.instance("gcp:n1+t4")
    assert (row.count, row.count_low, row.count_high) == (None, 1, 4)
    assert answer(instance="n1+t4", count=2, hours=3).device_hours.value == 6
    for count in (None, 5):
        with pytest.raises(ScoreError, match="1 to 4"):
            answer(instance="n1+t4", count=count, hours=1)


def test_a_region_without_a_cloud_is_that_of_the_instance_and_another_cloud_is_refused():
    short = answer(instance="aws:g5.xlarge", hours=1, region="eu-west-1")
    assert short.pue.value == CATALOG.region("aws:eu-west-1").pue.value
    assert short.conformance == "conforming"
    with pytest.raises(ScoreError, match="does not run in azure:eastus"):
        answer(instance="aws:g5.xlarge", hours=1, region="azure:eastus")
    assert answer(instance="GPU_NV_S", hours=1, region="aws:eu-west-1").pue == short.pue


def test_without_a_place_an_instance_is_no_sci():
    assert answer(instance="Colab T4", hours=1).conformance == "not-sci"


def test_prices_have_region_and_date_and_an_unknown_one_is_never_zero(catalog):
    doc = json.loads(json.dumps(catalog.instance("p4d.24xlarge").to_doc()))
    assert doc["price_usd_per_hour"] == 21.957642
    assert (doc["price_region"], doc["price_date"]) == ("us-east-1", "2026-07-20")
    priced = [one for one in catalog.all_instances() if one.price_usd_per_hour]
    assert len(priced) == 141 + 11 + 5  # and the five prices of GPUs attached to N1
    assert all(
        one.price_usd_per_hour > 0.2 and one.price_region and one.price_date for one in priced
    )
    unpriced = [one for one in catalog.all_instances() if one.price_usd_per_hour is None]
    assert all(one.price_note for one in unpriced)
    assert catalog.instance("GPU_NV_M").to_doc()["price_usd_per_hour"] is None


def test_a_price_changes_no_carbon_figure(catalog):
    dear = catalog.with_overlay(
        '[instances."aws:g5.xlarge"]\nsource = "a bill"\nprice_usd_per_hour = 99\n'
    )
    question = parse_estimate_request({"instance": "aws:g5.xlarge", "hours": 1, "zone": "FR"})
    figures = [estimate(question, c).total_g.value for c in (catalog, dear)]
    assert dear.instance("aws:g5.xlarge").price_usd_per_hour == 99
    assert figures[0] == figures[1]


@pytest.mark.parametrize(
    "name", ["m6a.xlarge", "db.r6g.large", "c4-highcpu-8", "e2-medium", "Standard_D8s_v5"]
)
def test_a_machine_without_accelerators_is_answered_with_that(catalog, name):
    with pytest.raises(LookupFailed, match=f"{name} has no accelerator"):
        catalog.instance(name)


def test_no_machine_of_the_catalog_is_taken_for_one_without(catalog):
    names = [one.name for one in catalog.all_instances()]
    assert [name for name in names if WITHOUT_ACCELERATOR.fullmatch(name)] == []
