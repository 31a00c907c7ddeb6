"""The journal's wire shape: round trips, and every way a line can be wrong."""

import json
from datetime import UTC, datetime, timedelta, timezone
from math import nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gramwatt.sci.figures.errors import RecordError
from gramwatt.sci.records.records import (
    CountRecord,
    DeviceRecord,
    EndRecord,
    IntervalRecord,
    JobRecord,
    decode,
    encode,
    format_time,
    parse_time,
)

WHO = {"job_id": "job-1", "node": "n-1", "writer": "w1", "seq": 1}
T0 = datetime(2026, 5, 1, 8, tzinfo=UTC)
INTERVAL = {
    "v": 1,
    "type": "interval",
    **WHO,
    "device_id": "GPU-1",
    "start": "2026-05-01T08:00:00Z",
    "end": "2026-05-01T08:00:10Z",
    "energy_j": 3000,
    "kind": "measured",
}


@pytest.mark.parametrize(
    "record",
    [
        JobRecord(
            **WHO,
            started_at=T0,
            role="track",
            project="vision",
            units=("image", "token"),
            zone="DE",
            pue=1.2,
            tags={"team": "a"},
            notices=("meter-source-absent: no NVML",),
        ),
        DeviceRecord(
            **WHO,
            device_id="GPU-1",
            device_class="gpu",
            name="NVIDIA H100 80GB HBM3",
            meter="nvml-counter",
            kind="measured",
            share=0.5,
            units_total=8,
        ),
        IntervalRecord(
            **WHO,
            device_id="GPU-1",
            start=T0,
            end=T0 + timedelta(seconds=10),
            energy_j=3000.5,
            kind="integrated",
            utilisation_mean=0.5,
            profile={"power_capped": 0.5, "temperature_c": 71.0},
        ),
        CountRecord(**WHO, at=T0, unit="image", amount=64, phase="epoch-3"),
        EndRecord(**WHO, ended_at=T0, state="failed", exit_code=7, meter_cpu_s=0.1),
    ],
    ids=lambda record: record.TYPE,
)
def test_every_type_survives_the_wire(record):
    assert decode(encode(record)) == record
    assert "\n" not in encode(record)


def test_device_class_is_called_class_on_the_wire():
    line = encode(
        DeviceRecord(
            **WHO, device_id="d", device_class="cpu", name="x", meter="m", kind="estimated"
        )
    )
    assert json.loads(line)["class"] == "cpu"
    assert "device_class" not in json.loads(line)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"v": 2}, "newer-version"),
        ({"v": 0}, "bad-version"),
        ({"v": "2"}, "bad-version"),
        ({"type": "sample"}, "unknown-type"),
        ({"type": ["interval"]}, "unknown-type"),
        ({"energy_j": -1}, "bad-field"),
        ({"energy_j": True}, "bad-field"),
        ({"energy_j": "3000"}, "bad-field"),
        ({"kind": "guessed"}, "bad-field"),
        ({"seq": 0}, "bad-field"),
        ({"seq": 1.5}, "bad-field"),
        ({"node": "../etc"}, "bad-field"),
        ({"start": "2026-05-01T08:00:00"}, "bad-field"),
        ({"start": "yesterday"}, "bad-field"),
        ({"end": "2026-05-01T08:00:00Z"}, "bad-interval"),
        ({"end": "2026-05-03T08:00:00Z"}, "bad-interval"),
        ({"device_id": None}, "missing-field"),
    ],
)
def test_a_wrong_line_is_refused_with_its_code(change, code):
    with pytest.raises(RecordError) as caught:
        decode(json.dumps({**INTERVAL, **change}))
    assert caught.value.code == code


@pytest.mark.parametrize("line", ["", "{", "[1]", "null", "[" * 100_000, b"\xff\xfe", '{"v":1'])
def test_a_torn_or_foreign_line_is_refused(line):
    with pytest.raises(RecordError) as caught:
        decode(line)
    assert caught.value.code in ("bad-json", "bad-version")


def test_nan_never_enters():
    line = json.dumps(INTERVAL).replace("3000", "NaN")
    with pytest.raises(RecordError):
        decode(line)


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (IntervalRecord, {"profile": {"power_capped": "much"}}),
        (IntervalRecord, {"profile": [0.5]}),
        (IntervalRecord, {"profile": {"temperature_c": 1e7}, "power_max_w": 3.7e6}),
        (IntervalRecord, {"memory_peak_b": 1e300, "utilisation_mean": -1}),
        (DeviceRecord, {"memory_b": 10**400, "power_limit_w": "many", "units_total": 0}),
    ],
)
def test_a_side_figure_that_cannot_be_voids_no_line(kind, wrong):
    device = {"type": "device", "class": "gpu", "name": "x", "meter": "m"}
    line = json.dumps({**INTERVAL, **(device if kind is DeviceRecord else {}), **wrong})
    record = decode(line)
    assert (type(record), record.extra.items() >= wrong.items()) == (kind, True)
    assert all(not getattr(record, name) for name in wrong)
    assert decode(encode(record)) == record


def test_what_has_no_text_in_json_is_not_written():
    with pytest.raises(RecordError, match="energy_j"):
        encode(
            IntervalRecord(**WHO, device_id="d", start=T0, end=T0, energy_j=nan, kind="measured")
        )


def test_pue_outside_its_bounds_is_refused():
    job = {"v": 1, "type": "job", **WHO, "started_at": "2026-05-01T08:00:00Z", "pue": 0.9}
    with pytest.raises(RecordError) as caught:
        decode(json.dumps(job))
    assert caught.value.code == "bad-field"


def test_times_are_utc():
    assert parse_time("2026-05-01T10:00:00+02:00") == T0
    assert (
        format_time(T0.astimezone(timezone(timedelta(hours=-7)))) == "2026-05-01T08:00:00.000000Z"
    )
    with pytest.raises(RecordError):
        format_time(datetime(2026, 5, 1))  # noqa: DTZ001  # a naive time is the case under test


@given(st.datetimes(timezones=st.just(UTC), min_value=datetime(2000, 1, 1)))  # noqa: DTZ001
def test_time_round_trip(when):
    assert parse_time(format_time(when)) == when


@given(st.text(max_size=200))
def test_no_text_crashes_the_reader(text):
    with pytest.raises(RecordError):
        decode(text)


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("project", "half \ud800", "bad-json"),  # no database can store half a surrogate pair
        ("tags", {"\udfff": "x"}, "bad-json"),
        ("pue", 10**400, "bad-field"),  # beyond any float
        ("started_at", "0001-01-01T00:00:00+23:59", "bad-field"),  # before the first UTC year
        ("started_at", "9999-12-31T23:59:59-23:59", "bad-field"),  # after the last
        ("started_at", "1999-12-31T23:59:59Z", "bad-field"),
        ("started_at", "2200-01-01T00:00:00Z", "bad-field"),
    ],
)
def test_values_that_nothing_can_hold_are_refused_with_a_code(field, value, code):
    line = {
        "v": 1,
        "type": "job",
        "job_id": "j",
        "node": "n",
        "writer": "w",
        "seq": 1,
        "started_at": "2026-05-01T08:00:00Z",
    }
    with pytest.raises(RecordError) as refused:
        decode(json.dumps({**line, field: value}))
    assert refused.value.code == code
