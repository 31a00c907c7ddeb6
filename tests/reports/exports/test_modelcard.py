"""The model card block: grams, the Hub's keys, and nothing else in a card touched."""

import msgspec
import pytest
import yaml

from gramwatt.reports.exports.common import ExportError
from gramwatt.reports.exports.impact_framework import manifest
from gramwatt.reports.exports.modelcard import block, card, into_card
from gramwatt.sci.figures.notices import Notice
from tests.documents import cluster_job

HUB_KEYS = {"emissions", "source", "training_type", "geographical_location", "hardware_used"}
CARD = """---
license: apache-2.0
co2_eq_emissions:
  emissions: 83.5
  source: old
# a comment
tags:
- vision
- co2_eq_emissions: kept
---
# My model

---
co2_eq_emissions: in the body, kept
"""


def read(text):
    return yaml.safe_load(text)["co2_eq_emissions"]


def test_emissions_are_grams():
    doc = cluster_job(kind="fine-tuning")
    fields = read(block(doc))
    assert fields["emissions"] == pytest.approx(doc.total_g.value, rel=1e-5)
    # 1.5 kg: a figure in kilograms would be a thousandth of it.
    assert 1000 < fields["emissions"] < 2000
    assert set(fields) == HUB_KEYS
    assert fields["training_type"] == "fine-tuning"
    assert fields["geographical_location"] == "DE"
    assert fields["hardware_used"] == "2 x NVIDIA H100 80GB HBM3"


def test_keys_without_a_figure_are_left_out():
    assert "training_type" not in read(block(cluster_job(kind="training")))
    fields = read(block(cluster_job(kind="inference", gpus=0)))
    assert "training_type" not in fields
    assert fields["hardware_used"] == "1 x CPU"


def test_the_block_replaces_the_old_one_and_nothing_else():
    doc = cluster_job()
    text = into_card(CARD, doc)
    front, body = text.split("\n---\n", 1)
    parsed = yaml.safe_load(front)
    assert parsed["co2_eq_emissions"] == read(block(doc))
    assert parsed["license"] == "apache-2.0"
    assert parsed["tags"] == ["vision", {"co2_eq_emissions": "kept"}]
    assert "# a comment\n" in front
    assert body == CARD.split("\n---\n", 1)[1]
    assert into_card(text, doc) == text


def test_a_card_without_front_matter_gets_one():
    doc = cluster_job()
    assert into_card("# Title\n", doc) == f"{card(doc)}# Title\n"
    assert into_card("", doc) == card(doc)


def test_an_unclosed_card_is_refused():
    with pytest.raises(ExportError, match="no closing"):
        into_card("---\nlicense: mit\n", cluster_job())


def test_an_unknown_total_is_refused_not_zero():
    with pytest.raises(ExportError, match="no total"):
        block(msgspec.structs.replace(cluster_job(), total_g=None))


def test_a_synthetic_meter_is_named_in_the_card_and_the_manifest():
    doc = cluster_job()
    assert "synthetic" not in block(doc) + manifest(doc)
    notice = Notice("meter-synthetic", "said by the meter")
    doc.notices = [*doc.notices, notice]
    assert "not from hardware" in read(block(doc))["source"]
    assert "not from hardware" in yaml.safe_load(manifest(doc))["description"]
