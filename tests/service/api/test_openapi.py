"""The OpenAPI document: journal lines field by field, examples that are true, headers."""

import json
import re
import subprocess
import sys

import jsonschema
import pytest
from msgspec.structs import replace

from gramwatt.sci.figures.errors import RecordError
from gramwatt.sci.records.records import TYPES, IntervalRecord, decode
from gramwatt.service.api.jobs import DESCRIPTIONS
from tests.journals import journal, lines
from tests.service.keyed import NDJSON


@pytest.fixture(scope="module")
def described():
    from gramwatt.service.api.openapi import document
    from gramwatt.service.app import GROUPS

    return document(GROUPS)


@pytest.fixture(scope="module")
def line(described):
    schema = {"$ref": "#/components/schemas/JournalLine", "components": described["components"]}
    return jsonschema.Draft202012Validator(schema)


def test_every_line_of_a_journal_fits_its_schema(line):
    records = journal(tags={"team": "a"}, model_id="m", pue=1.2, region="aws:eu-west-1")
    records = [
        replace(record, profile={"temperature_c": 70.0}, power_max_w=1.0)
        if isinstance(record, IntervalRecord)
        else record
        for record in records
    ]
    for text in lines(records):
        line.validate(json.loads(text))


WRONG = [
    ("job", {"pue": 0.5}),
    ("job", {"kind": "measured"}),
    ("job", {"units": ["a/b"]}),
    ("device", {"share": 0}),
    ("device", {"class": "quantum"}),
    ("interval", {"energy_j": -1}),
    ("interval", {"energy_j": "5"}),
    ("interval", {"kind": "training"}),
    ("count", {"amount": 1e31}),
    ("count", {"unit": "/"}),
    ("end", {"state": "happy"}),
    ("end", {"exit_code": 1.5}),
    ("end", {"seq": 0}),
    ("end", {"node": "../x"}),
    ("end", {"v": 2}),
]


def test_what_the_schema_refuses_the_service_refuses(line):
    for kind, changed in WRONG:
        text = next(text for text in lines(journal()) if json.loads(text)["type"] == kind)
        wrong = {**json.loads(text), **changed}
        assert not line.is_valid(wrong)
        with pytest.raises(RecordError):
            decode(json.dumps(wrong))


def test_what_a_line_must_have_is_required(line):
    for text in lines(journal()):
        whole = json.loads(text)
        for name in whole:
            part = {key: value for key, value in whole.items() if key != name}
            try:
                decode(json.dumps(part))
            except RecordError:
                assert not line.is_valid(part), name
            else:
                assert line.is_valid(part), name


def test_every_figure_of_a_line_names_its_unit(described):
    schemas = described["components"]["schemas"]
    found = [f"{kind.capitalize()}Line" for kind in TYPES]
    for name in found:
        for field, schema in schemas[name]["properties"].items():
            assert schema["description"] == DESCRIPTIONS[field]
            if unit := re.search(r"_(j|w|b|s)$", field):
                assert f"[{unit[1].upper() if unit[1] != 's' else 's'}]" in DESCRIPTIONS[field]
    assert {"energy_j", "power_max_w", "memory_b", "meter_cpu_s"} <= DESCRIPTIONS.keys()


def test_the_example_is_a_whole_job(described, client):
    path = described["paths"]["/v1/jobs/{job_id}/records"]["post"]
    [example] = path["requestBody"]["content"][NDJSON]["examples"].values()
    answer = client.post("/v1/jobs/job-1/records", data=example["value"], content_type=NDJSON)
    assert (answer.json["accepted"], answer.json["rejected"]) == (5, [])
    job = client.get("/v1/jobs/job-1").json
    # 36 kJ are 0.01 kWh.
    assert (job["state"], job["energy_kwh"]["value"]) == ("completed", pytest.approx(0.01))
    assert job["sci"][0]["count"] == 640


def test_every_read_offers_a_304_and_every_repeatable_change_a_key(described):
    headers = {}
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            names = {p["name"] for p in operation["parameters"] if p["in"] == "header"}
            headers[method, path] = names
            if method == "get":
                assert "304" in operation["responses"], path
                assert "If-None-Match" in names, path
    job = "/v1/jobs/{job_id}"
    assert headers["patch", job] == {"If-Match", "Idempotency-Key"}
    assert headers["delete", job] == {"If-Match"}
    assert headers["post", f"{job}/rescore"] == {"Idempotency-Key"}


def test_every_schema_has_a_name_of_its_own(described):
    """Two of one name get the module's path in theirs, and some generators of clients stop."""
    schemas = described["components"]["schemas"]
    assert [name for name in schemas if "__" in name] == []


def test_a_process_that_has_described_the_routes_ends_without_collecting_them():
    """msgspec crashes in one of about four such processes otherwise, at their very end."""
    code = (
        "import atexit, gc\n"
        "atexit.register(lambda: print(gc.get_freeze_count() > 10_000))\n"
        "from gramwatt.service.app import GROUPS\n"
        "from gramwatt.service.api import openapi\n"
        "openapi.document(GROUPS)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "True\n")
