"""The suggestions on work that was measured: within their aims, asked of the engine."""

import math

import pytest

from benchmarks.suggestions import report
from benchmarks.suggestions.ask import request_of
from benchmarks.suggestions.fit import Point, fit, strays
from benchmarks.suggestions.groups import groups, measurements, pairs
from benchmarks.suggestions.score import (
    Answer,
    Said,
    baselines,
    bins,
    coverage,
    outcomes,
    quantile,
    summary,
)
from gramwatt.sci.catalog.catalog import load_catalog
from gramwatt.sci.estimate.ranking import QUANTILE_90, Log, RankingRow
from gramwatt.sci.figures.csv_data import rows
from gramwatt.sci.suggest.evidence import SourceRow

CATALOG = load_catalog()
GROUPS = groups(CATALOG)


@pytest.fixture(scope="module")
def results():
    return report.Results(CATALOG)


@pytest.mark.long
def test_the_tables_of_the_package_and_the_page_are_those_of_the_measurements(results):
    made = report.files(results)
    stale = [path.name for path in made if not report.is_current(path.read_text(), made[path])]
    assert (stale, len(made)) == ([], 4)


@pytest.mark.long
def test_held_out_questions_are_answered_within_the_aims(results):
    asked = results.shipped
    assert report.missed(asked) == []
    first, advised = summary(asked.first), summary(asked.advised)
    stay, *rules = (
        summary(list(outcomes(results.groups, CATALOG, rank)))
        for rank in baselines(CATALOG).values()
    )
    assert advised.worse < min(rule.worse for rule in rules)
    assert first.p90 < min(rule.p90 for rule in (stay, *rules)) / 2
    assert sum(row.number >= report.LEAST for row in bins(asked.said)) == 6


@pytest.mark.long
def test_numbers_that_have_not_seen_a_source_answer_it_within_the_aims(results):
    first, advised = summary(results.kept_out.first), summary(results.kept_out.advised)
    assert first.p90 <= report.P90
    assert advised.worse <= report.WORSE
    assert first.right > summary(results.simple).right
    missed = report.missed(results.kept_out)
    assert [text.split(": ")[-1] for text in missed if "ranges" in text] == [
        "ml-energy-video, batch-inference",  # fitted to language models alone
        "mlperf-inference, batch-inference",  # 93 %
    ]


@pytest.mark.long
def test_numbers_that_are_called_fitted_are_those_of_the_fits(results):
    assert strays(results.fits) == []
    narrow = [row._replace(coefficients=(9.0,) * 3) for row in results.fits]
    assert len(strays(narrow)) == 11


def test_every_source_has_its_licence():
    named = {row.name for row in rows(SourceRow) if row.licence}
    used = {row.source for row in measurements()} | {
        key for row in rows(RankingRow) for key in row.source
    }
    assert used - named == set()


def test_a_group_is_the_same_work_of_one_source():
    of_source = [g for g in GROUPS if g.source == "mlperf-systems" and g.work[:9] == "resnet50,"]
    [group] = [g for g in of_source if {row.round for row in g.rows.values()} == {"v3.0"}]
    # 256.216 W at 32010.4 samples/s a card, then 277.447 W at 44154.
    energies = group.energies(CATALOG)
    assert energies["nvidia-a100-pcie-80"] == pytest.approx(256.216 / 32010.4)
    assert 277.447 / 44154 in (pytest.approx(value) for value in energies.values())
    asked = request_of(group, "nvidia-a100-pcie-80")
    assert (asked["framework"], asked["precision"], asked["kind"]) == (
        "tensorrt",
        "int8",
        "inference",
    )
    assert "mean_power_w" not in asked


def test_pairs_of_a_source_and_class_weigh_one():
    weights: dict[str, float] = {}
    for pair in pairs(GROUPS, CATALOG):
        weights[pair.group.name] = weights.get(pair.group.name, 0.0) + pair.weight
    assert list(weights.values()) == pytest.approx([1.0] * len(weights))
    assert len(weights) == 30


def test_regret_and_what_is_worse_than_staying_by_hand():
    [group] = [g for g in GROUPS if (g.source, g.work[:8]) == ("llm-foundry", "MPT-13b ")]
    energies = group.energies(CATALOG)
    best, worst = min(energies, key=energies.get), max(energies, key=energies.get)

    def wrong(group, now):
        logs = {name: math.log(energies[now] / energies[name]) for name in group.rows}
        return {name: Answer(0.72, Log(log, 0.2)) for name, log in logs.items() if name != now}

    found = list(outcomes([group], CATALOG, wrong))
    assert {item.regret for item in found} == {energies[worst] / energies[best] - 1}
    assert sum(item.worse for item in found) == len(energies) - 1
    assert summary(found).right == 0
    careful = list(outcomes([group], CATALOG, wrong, 0.73))
    assert not any(item.worse or item.moved for item in careful)


def test_bins_and_coverage_by_hand():
    answers = [Said("a", 0.75, n < 24, n < 20, 1 / 30) for n in range(30)]
    answers += [Said("few", 0.75, False, None, 1.0)]
    [row] = bins(answers)
    assert (row.low, row.number, row.stated) == (0.7, 31, pytest.approx(0.75))
    assert row.true == pytest.approx(24 / 30 / (1 + 1 / 30))
    assert coverage(answers) == {"a": (30, pytest.approx(2 / 3))}
    assert quantile([(1.0, 1.0), (2.0, 3.0), (9.0, 1.0)], 0.5) == 2.0


def test_a_fit_finds_the_exponents_that_made_the_points():
    made = [
        Point("s", "busy", (x, y, x * y), 0.7 * x + 0.2 * y + 0.3 * x * y + 0.1 * (-1) ** n, 1.0)
        for n, (x, y) in enumerate((a / 4, b / 4) for a in range(-6, 7) for b in range(-6, 7))
    ]
    found = fit(made, made, "none")
    assert found.coefficients == pytest.approx((0.7, 0.2, 0.3), abs=0.02)
    assert found.holds > 0.8
    assert found.scale * QUANTILE_90 == pytest.approx(0.1, rel=0.6)


@pytest.mark.parametrize(
    ("shipped", "made", "current"),
    [
        ("a,1.00000\n", "a,1.009\n", True),
        ("a,1\n", "b,1\n", False),
        ("a,1\n", "a,1\nb,1\n", False),
        ("| 81 % |", "| 82 % |", True),
        ("| 81 % |", "| 83 % |", False),
    ],
)
def test_a_file_is_current_but_for_rounding(shipped, made, current):
    assert report.is_current(shipped, made) is current
