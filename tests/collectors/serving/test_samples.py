from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from gramwatt.collectors.serving.poll import parse_samples
from gramwatt.collectors.serving.presets import PRESETS, Series, names

DATA = Path(__file__).parents[2] / "data" / "serving"
LABEL = st.text(max_size=12).filter(lambda text: "\r" not in text)


class Everything:
    def __contains__(self, name: object) -> bool:
        return True


def by_the_oracle(text: str) -> dict[Series, float]:
    """Without types, for which it would rename counters."""
    text = "".join(f"{line}\n" for line in text.split("\n") if not line.startswith("# TYPE"))
    return {
        Series(sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.parametrize("name", sorted(path.name for path in DATA.iterdir()))
def test_every_sample_is_read_as_by_prometheus_own_parser(name):
    text = (DATA / name).read_text("utf-8")
    found = parse_samples(text, Everything())
    assert found == by_the_oracle(text)
    wanted = names(PRESETS.values())
    some = parse_samples(text, wanted)
    assert some == {series: value for series, value in found.items() if series.name in wanted}
    assert len(some) >= 2


@given(st.lists(st.tuples(LABEL, LABEL), unique=True, max_size=4), st.floats(0, 1e300))
def test_any_text_of_the_client_library_is_read_as_by_its_parser(labels, value):
    registry = CollectorRegistry()
    counter = Counter("app:tokens", 'Tokens, \\ "quoted"\nand more.', ["a", "b"], registry=registry)
    Gauge("app_up", "No counter.", registry=registry).set(-1)
    for pair in labels:
        counter.labels(*pair).inc(value)
    text = generate_latest(registry).decode("utf-8")
    oracle = by_the_oracle(text)
    assert parse_samples(text, Everything()) == {s: v for s, v in oracle.items() if v >= 0}


@pytest.mark.parametrize(
    "line",
    ["n 1 2 3", "n", "n{", 'n{a="1" 3', "n{a=1} 3", 'n{a="1",a="2"} 3', "n x", "n 1 # 3", "n{} "],
)
def test_a_line_that_cannot_be_read_spoils_the_reading(line):
    with pytest.raises(ValueError, match=r"no (sample|labels)|could not convert"):
        parse_samples(f"other {{}} ?\n{line}\n", {"n"})
