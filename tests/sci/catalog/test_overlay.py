"""The user's overlay: what it adds and overrides, that it shows, and how it is refused."""

import re
from pathlib import Path

import pytest

from gramwatt.sci.catalog.catalog import load_catalog
from gramwatt.sci.catalog.overlay import OverlayError
from gramwatt.sci.embodied.te import accelerator_te
from gramwatt.sci.estimate.estimate import estimate
from gramwatt.sci.estimate.request import parse_estimate_request
from gramwatt.sci.figures.errors import AmbiguousName, LookupFailed
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.score.assess import overlay_notices
from tests.documents import journal_of
from tests.documents import scored as scored_by

DOCUMENT = Path(__file__).parents[3] / "docs" / "adding-hardware.md"
EXAMPLE = re.findall(r"```toml\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)[0]


@pytest.fixture(scope="module")
def catalog():
    return load_catalog().with_overlay(EXAMPLE)


def scored(catalog, name, ids=("GPU-1",), **head):
    devices = [(device_id, {"name": name}, [(0, 60, 42_000)]) for device_id in ids]
    return scored_by(journal_of(*devices, **{"zone": "FR", **head}), catalog=catalog)


def messages(doc, code):
    return [notice.message for notice in doc.notices if notice.code == code]


def test_a_figure_is_overridden_and_the_rest_stays(catalog):
    own, packaged = catalog.hardware("NVIDIA L4"), load_catalog().hardware("NVIDIA L4")
    assert (packaged.tdp_w, own.tdp_w) == (72, 60)
    assert (own.memory_gb, own.fp32_tflops) == (packaged.memory_gb, packaged.fp32_tflops)
    assert accelerator_te(own) == accelerator_te(packaged)
    assert own.tdp_sources == ("overlay hardware nvidia-l4",)
    assert own.overlay == "power limit set on our nodes, change 1182"


def test_a_new_part_goes_by_its_names(catalog):
    part = catalog.hardware("acme-x1-pcie")
    assert (part.id, part.device_class, part.tdp_w) == ("acme-x1", "accelerator", 300)
    te = accelerator_te(part)
    figure = te.te_g
    assert (figure.value, figure.low, figure.high) == (180_000, 120_000, 260_000)
    assert (figure.kind, te.tier) == ("declared", "B")
    assert figure.source == "overlay: Acme X1 data sheet, rev. 3"
    with pytest.raises(LookupFailed):
        load_catalog().hardware("acme-x1")


def test_zones_regions_pue_and_lifetimes(catalog):
    zone = catalog.zone("lab")
    assert (zone.intensity.low, zone.intensity.value, zone.intensity.high) == (100, 120, 140)
    assert (zone.year, zone.basis, zone.signal) == (2025, "lifecycle", "average")
    region = catalog.region("lab:paris")
    assert region.zone == "FR"
    assert (region.pue.low, region.pue.value, region.pue.high) == (1.2, 1.25, 1.3)
    life = catalog.lifetime("nvidia-l4")
    assert (life.low, life.value, life.high) == (4, 5, 7)
    assert catalog.lifetime().value == 5
    assert load_catalog().lifetime("nvidia-l4").value == 4


def test_a_country_is_overridden_under_either_code():
    own = load_catalog().with_overlay(
        '[zones.FRA]\nsource = "a study"\ng_per_kwh = 30\nyear = 2026\n'
    )
    assert own.zone("FR").intensity.value == own.zone("fra").intensity.value == 30
    assert own.zone("FR").intensity.source == "FRA 2026, annual mean; overlay: a study"
    assert own.zone("DE") == load_catalog().zone("DE")


def test_pue_of_a_published_region_and_the_life_of_one_part():
    own = load_catalog().with_overlay(
        '[pue."AWS:eu-west-1"]\nsource = "contract"\nvalue = 1.05\n'
        '[lifetimes.nvidia-l4]\nsource = "leasing"\nyears = 2\n'
    )
    region = own.region("aws:eu-west-1")
    assert (region.pue.value, round(region.pue.low, 9)) == (1.05, 1.0)
    assert region.zone == "IE"
    assert own.lifetime("nvidia-l4").value == 2
    assert own.lifetime("nvidia-t4").value == 4


def test_an_estimate_names_the_overlay_for_every_figure_from_it(catalog):
    question = {"instance": "lab:node-a", "hours": 10, "region": "lab:paris"}
    doc = estimate(parse_estimate_request(question), catalog)
    assert doc.energy_kwh.value == pytest.approx(4 * 10 * 0.3 * 0.7 * 1.45)
    assert messages(doc, "overlay-used") == [
        "From the overlay: devices (inventory of the lab).",
        "From the overlay: power of a device (Acme X1 data sheet, rev. 3).",
        "From the overlay: TE, embodied carbon of a device (Acme X1 data sheet, rev. 3).",
        "From the overlay: TE, host share of a device (inventory of the lab).",
        "From the overlay: EL, expected lifetime (write-off rule of the finance department).",
        "From the overlay: PUE (site meter, mean of 2025).",
    ]
    assert re.fullmatch(r"20[\d.]+\+overlay\.[0-9a-f]{8}", doc.method.catalog_version)


def test_a_score_names_it_too_and_takes_the_life_part_by_part(catalog):
    doc = scored(catalog, "ACME-X1-PCIE", zone="LAB")
    assert doc.devices[0].hardware == "acme-x1"
    te = 180_000 * 60 / (5 * 365 * 86_400)
    assert doc.devices[0].embodied_g.value == pytest.approx(te)
    texts = messages(doc, "overlay-used")
    assert (
        "From the overlay: TE, embodied carbon of ACME-X1-PCIE (Acme X1 data sheet, rev. 3)."
        in texts
    )
    assert any("carbon intensity of the grid (fuel records and meters" in text for text in texts)
    assert any("EL, expected lifetime (write-off rule" in text for text in texts)
    own = load_catalog().with_overlay('[lifetimes.nvidia-l4]\nsource = "leasing"\nyears = 2\n')
    terms = {t.device_id: t.lifetime_years for t in scored(own, "NVIDIA L4").embodied_terms}
    assert terms == {"GPU-1": 2, "n-1-host": 4}
    half = scored(load_catalog(), "NVIDIA L4").devices[0].embodied_g.value
    assert scored(own, "NVIDIA L4").devices[0].embodied_g.value == pytest.approx(2 * half)


def test_a_source_whose_text_begins_another_is_not_named_for_it():
    own = load_catalog().with_overlay(
        '[zones.LAB]\nsource = "a study of the campus, 2nd"\ng_per_kwh = 30\nyear = 2026\n'
        '[lifetimes.nvidia-l4]\nsource = "a study of the campus"\nyears = 2\n'
        '[instances."lab:n"]\nsource = "a study"\nhardware = "nvidia-l4"\ncount = 1\n'
    )
    question = {"instance": "lab:n", "hours": 1, "zone": "LAB"}
    doc = estimate(parse_estimate_request(question), own)
    texts = messages(doc, "overlay-used")
    assert {text.rpartition("(")[2].rstrip(").") for text in texts if "EL," in text} == {
        "a study of the campus"
    }
    assert [text for text in texts if "intensity" in text] == [
        "From the overlay: carbon intensity of the grid (a study of the campus, 2nd)."
    ]
    assert len({text.partition(" (")[0] for text in texts}) == len(texts)


def test_a_figure_is_of_the_overlay_by_its_entry_and_not_by_the_words_of_its_source():
    own = Quantity.exact(1, "1", "declared", "overlay: site meter, mean of 2025")
    other = Quantity.exact(1, "1", "declared", "overlay: of somebody else")
    overlay = load_catalog().with_overlay(EXAMPLE).overlay
    for of, texts in ((overlay, ["From the overlay: PUE (site meter, mean of 2025)."]), (None, [])):
        notices = overlay_notices([("PUE", own), ("another PUE", other)], of)
        assert [notice.message for notice in notices] == texts


def test_without_an_overlay_nothing_speaks_of_one():
    doc = scored(load_catalog(), "NVIDIA L4")
    assert messages(doc, "overlay-used") == []
    assert "overlay" not in doc.method.catalog_version


def test_a_name_that_is_asked_back_leaves_its_choices_until_an_overlay_decides():
    doc = scored(load_catalog(), "NVIDIA RTX 6000", ["GPU-1", "GPU-2"])
    (text,) = messages(doc, "hardware-ambiguous")
    for choice in ("nvidia-quadro-rtx-6000", "nvidia-rtx-6000-ada", "nvidia-rtx-pro-6000-server"):
        assert choice in text
    assert messages(doc, "hardware-unknown") == []
    assert doc.devices[0].hardware is None
    own = load_catalog().with_overlay(
        '[hardware.nvidia-rtx-6000-ada]\nsource = "our nodes"\naliases = ["NVIDIA RTX 6000"]\n'
    )
    assert scored(own, "NVIDIA RTX 6000").devices[0].hardware == "nvidia-rtx-6000-ada"
    with pytest.raises(AmbiguousName):
        load_catalog().hardware("NVIDIA RTX 6000")


def test_a_slice_of_a_board_is_found_under_the_boards_name():
    for piece in ("1g.5gb", "1c.3g.20gb", "1g.5gb+me"):
        doc = scored(load_catalog(), f"NVIDIA A100-SXM4-40GB MIG {piece}")
        assert doc.devices[0].hardware == "nvidia-a100-sxm4-40"


def test_a_zone_without_a_value_says_that_its_countrys_is_used():
    fallback = "AU-TAS-CBI"
    assert load_catalog().zone(fallback).country_fallback
    (text,) = messages(scored(load_catalog(), "NVIDIA L4", zone=fallback), "intensity-reused")
    assert fallback in text
    assert messages(scored(load_catalog(), "NVIDIA L4", zone="FR"), "intensity-reused") == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[hardware", "not TOML"),
        ("[hardware.nvidia-l4]\ntdp_w = 60\n", "[hardware.nvidia-l4] needs source"),
        ('[hardware.nvidia-l4]\nsource = "s"\ntdp_w = 0\n', "tdp_w is "),
        ('[hardware.nvidia-l4]\nsource = "s"\ntdp_w = "60"\n', "tdp_w is "),
        ('[hardware.nvidia-l4]\nsource = "s"\ntdp_w = nan\n', "tdp_w is "),
        ('[hardware.nvidia-l4]\nsource = "s"\ntdp_watt = 60\n', "perhaps tdp_w"),
        ('[hardware.x1]\nsource = "s"\ntdp_w = 60\n', "is new and needs name, class"),
        ('[hardware.x1]\nsource = "s"\nname = "X"\nclass = "cpu"\n', "not one of gpu, accelerator"),
        ('[hardware.x1]\nsource = ""\n', "source is '', not one line"),
        (
            '[hardware.nvidia-l4]\nsource = "s"\nembodied_kg = 9\nembodied_low_kg = 10\n',
            "must rise in that order",
        ),
        ('[instances.node]\nsource = "s"\nhardware = "nvidia-l4"\n', "PROVIDER:NAME"),
        ('[instances."lab:n"]\nsource = "s"\nhardware = "nvidia-l44"\n', "nvidia-l4"),
        (
            '[instances."lab:n"]\nsource = "s"\nhardware = "nvidia-l4"\nshare = 1.5\n',
            "not a number from 0.01 to 1",
        ),
        ('[zones.X]\nsource = "s"\ng_per_kwh = 10\n', "[zones.X] needs year"),
        ('[zones.X]\nsource = "s"\ng_per_kwh = 0\nyear = 2025\n', "above 0"),
        (
            '[zones.X]\nsource = "s"\ng_per_kwh = 432\nhigh = 432200\nyear = 2025\n',
            "high is 432200, not an intensity above 0 and at most 5000",
        ),
        ('[hardware.nvidia-l4]\nsource = "s"\ntdp_w = 72e3\n', "from 0.1 to 50000 W"),
        ('[pue."aws:eu-west-9"]\nsource = "s"\nvalue = 1.1\n', "aws:eu-west-1"),
        ('[pue."aws:eu-west-1"]\nsource = "s"\nvalue = 0.9\n', "a PUE from 1 to 5"),
        ('[regions."lab:x"]\nsource = "s"\nzone = "Atlantis"\ncountry = "FRA"\n', "Atlantis"),
        ('[lifetimes.nvidia-l44]\nsource = "s"\nyears = 4\n', "nvidia-l4"),
        ('[prices.x]\nsource = "s"\n', "unknown table [prices]"),
        ('[hardware.x1]\nsource = "s"\nname = "T4"\nclass = "gpu"\n', "'T4' stands for two ids"),
        ("hardware = 3\n", "[hardware] must be a table"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_place(text, said):
    with pytest.raises(OverlayError) as caught:
        load_catalog().with_overlay(text)
    assert said in caught.value.message


def test_every_wrong_entry_is_named_at_once():
    text = '[hardware.nvidia-l4]\ntdp_w = 0\n[zones.X]\nsource = "s"\n'
    with pytest.raises(OverlayError) as caught:
        load_catalog().with_overlay(text)
    for part in (
        "tdp_w is 0, not a number from 0.1 to 50000 W",
        "[hardware.nvidia-l4] needs source",
        "needs g_per_kwh",
        "needs year",
    ):
        assert part in caught.value.message


def test_the_packaged_catalog_is_not_touched(catalog):
    assert catalog.overlay is not None
    assert load_catalog().overlay is None
    assert load_catalog().hardware("nvidia-l4").tdp_w == 72


def test_what_a_new_part_stands_in_and_how_it_is_had_can_be_said():
    said = 'host_class = "card"'
    own = load_catalog().with_overlay(EXAMPLE.replace(said, 'host_class = "server"'))
    part = own.hardware("acme-x1")
    assert (part.host_class, part.market, part.availability) == ("server", "other", "sold")
    own = load_catalog().with_overlay(EXAMPLE.replace(said, 'market = "legacy"'))
    part = own.hardware("acme-x1")
    assert (part.host_class, part.market) == ("card", "legacy")
    with pytest.raises(
        OverlayError, match=r"\[hardware.acme-x1\] host_class is \'box\', not one of server"
    ):
        load_catalog().with_overlay(EXAMPLE.replace(said, 'host_class = "box"'))
