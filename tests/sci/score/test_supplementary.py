"""Beside a score: contract figures that cannot enter it, and other lives of its hardware."""

import pytest

from gramwatt.sci.score.method import NOTE, meter_energy_j
from tests.documents import cluster_job

CONTRACT = {"contract_g_per_kwh": "12", "contract_source": "supplier's statement 2025"}


def test_a_contract_figure_is_a_memo_and_changes_no_figure():
    plain, signed = cluster_job(tags={"a": "b"}), cluster_job(tags={"a": "b"} | CONTRACT)
    memo = signed.pop("memo")
    assert plain.pop("memo") is None
    assert signed.pop("tags") == plain.pop("tags") | CONTRACT
    assert signed == plain
    energy = plain["energy_kwh"]["value"]
    assert memo["contract_g"]["value"] == pytest.approx(energy * 1.21 * 12)
    assert memo["contract_g_per_kwh"]["source"] == "supplier's statement 2025"
    assert memo["note"] == NOTE


def test_power_without_any_emission_by_contract_still_emits():
    doc = cluster_job(tags=CONTRACT | {"contract_g_per_kwh": "0"})
    assert doc["memo"]["contract_g"]["value"] == 0
    assert doc["operational_g"]["value"] > 100
    assert doc["total_g"]["value"] == pytest.approx(
        doc["operational_g"]["value"] + doc["embodied_g"]["value"]
    )


@pytest.mark.parametrize(
    ("tags", "said"),
    [
        ({"contract_g_per_kwh": "12"}, "needs the tag 'contract_source'"),
        (CONTRACT | {"contract_g_per_kwh": "green"}, "'green' is not a number"),
        (CONTRACT | {"contract_g_per_kwh": "-1"}, "'-1' is not a number"),
        (CONTRACT | {"contract_g_per_kwh": "nan"}, "'nan' is not a number"),
    ],
)
def test_a_contract_figure_that_cannot_be_used_is_said(tags, said):
    doc = cluster_job(tags=tags)
    assert doc["memo"] is None
    (notice,) = [n for n in doc["notices"] if n["code"] == "argument-ignored"]
    assert said in notice["message"]


def test_embodied_carbon_for_other_lives_of_the_hardware():
    doc = cluster_job()
    rows = {row["lifetime_years"]: row for row in doc["lifetime_sensitivity"]}
    made, used = doc["embodied_g"]["value"], doc["operational_g"]["value"]
    assert list(rows) == [3, 4, 5, 6]
    # EL is 4 years here, so M at 3 is 4/3 of it, at 6 two thirds.
    for years, factor in ((3, 4 / 3), (4, 1), (5, 4 / 5), (6, 2 / 3)):
        row = rows[years]
        assert row["embodied_g"] == pytest.approx(made * factor)
        assert row["total_g"] == pytest.approx(used + made * factor)
        per_token = (used + made * factor) / doc["sci"][0]["count"]
        assert row["g_per_unit"] == {"token": pytest.approx(per_token)}


def test_processor_time_and_memory_over_the_job():
    # 4.2 s x 3.35 W (0.42 to 1.75 times) + 0.5 GiB x 0.19 W x 3600 s (0.47 to 2.06 times)
    # = 14.07 + 342 J; the two err independently, so the range is narrower than the sum of both
    # ranges, 5.9094 + 160.74 J to 24.6225 + 704.52 J, and wider than one of a tenth less.
    own = meter_energy_j(4.2, 2.0**29, 3600)
    assert own.value == pytest.approx(356.07)
    assert 166.6494 < own.low < 1.1 * 166.6494
    assert 0.9 * 729.1425 < own.high < 729.1425
    assert (own.unit, own.kind) == ("J", "estimated")


def test_memory_that_is_not_known_is_left_out_and_time_that_is_not_known_is_no_figure():
    own = meter_energy_j(2.0, None, 100)
    # 2 s x 3.35 W, 0.42 to 1.75 times
    assert (own.low, own.value, own.high) == pytest.approx((2.814, 6.7, 11.725))
    assert meter_energy_j(None, 1e9, 100) is None
