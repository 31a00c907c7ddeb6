"""The app against its own OpenAPI document, with inputs that nobody would think of."""

import os

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from openapi_spec_validator import OpenAPIV31SpecValidator
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks

from gramwatt.sci.catalog.catalog import load_catalog
from gramwatt.sci.figures.document import JobDoc
from gramwatt.sci.suggest.jobs import for_month
from gramwatt.service.api.openapi import document
from gramwatt.service.api.problems import CODES
from gramwatt.service.app import GROUPS, create_app
from gramwatt.service.config import ServiceConfig, sqlite_url
from gramwatt.service.container import Service
from gramwatt.service.store.migrate import upgrade
from tests.journals import body, journal, lines
from tests.months import alike, month_document
from tests.service.keyed import NDJSON, add, bearer, key_of

pytestmark = pytest.mark.long


any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


def changed_lines():
    """Lines of a real journal with one field replaced by anything."""
    import json

    texts = st.sampled_from([json.loads(line) for line in lines(journal())])
    return st.builds(
        lambda doc, key, value: json.dumps({**doc, key: value}).encode(),
        texts,
        st.sampled_from(
            [
                "v",
                "type",
                "job_id",
                "node",
                "seq",
                "start",
                "energy_j",
                "amount",
                "tags",
                "zone",
                "pue",
            ]
        ),
        any_json,
    )


schemathesis.openapi.media_type(
    NDJSON, st.lists(changed_lines() | st.binary(max_size=40), max_size=4).map(b"\n".join)
)
load_all_checks()
# A cursor's text, or a question's meaning, says more than a schema can: 422 is right there.
LEFT_OUT = {"positive_data_acceptance", "use_after_free", "ensure_resource_availability"}
CHOSEN = [check for check in CHECKS.get_all() if check.__name__ not in LEFT_OUT]
CASES = int(os.environ.get("GRAMWATT_CONTRACT_CASES", "10"))
"""Cases of each operation and mode; docs/contributing.md has the command of the long run."""
FEW = settings(
    max_examples=CASES, deadline=None, database=None, suppress_health_check=[*HealthCheck]
)


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    home = tmp_path_factory.mktemp("contract")
    url = sqlite_url(home / "g.db")
    service = Service.open(ServiceConfig(home=home, database_url=url, max_body_b=2**20))
    upgrade(service.store)
    add(service)
    add(service, "job-2", end_state=None)
    add(service, DELETED)
    app = create_app(service=service)
    key = bearer(key_of(app))
    yield schemathesis.openapi.from_wsgi("/openapi.json", app, headers=key), key
    service.store.close()


THERE = {"job_id": "job-1", "month": "2026-05"}
DELETED = "job-3"
"""The job that is deleted, so that the others are there for every operation."""
OPERATIONS = [operation for group in GROUPS for operation in group.operations]
WITH_INPUT = [
    operation for operation in OPERATIONS if {"path", "query", "body"} & {*operation.hints}
]


def name_of(operation):
    return operation.view.__name__


@pytest.mark.parametrize("operation", OPERATIONS, ids=name_of)
def test_every_answer_is_as_documented(api, operation):
    fuzz(api, operation, GenerationMode.POSITIVE)


@pytest.mark.parametrize("operation", WITH_INPUT, ids=name_of)
def test_what_the_schema_does_not_allow_is_refused(api, operation):
    fuzz(api, operation, NEGATIVE)


NEGATIVE = GenerationMode.NEGATIVE


def fuzz(api, operation, mode):
    schema, key = api
    described = schema[operation.address][operation.method]

    @FEW
    @given(case=described.as_strategy(mode), known=st.booleans())
    def run(case, known):
        if known and mode is not NEGATIVE:
            there = THERE.keys() & case.path_parameters.keys()
            case.path_parameters.update({name: THERE[name] for name in there})
            if operation.method == "DELETE":
                case.path_parameters["job_id"] = DELETED
        # A parameter whose value is an empty list is not sent, and the rest may be right.
        assume([] not in dict(case.query or {}).values())
        # Of an array of records a bad one is rejected alone; the answer names it.
        assume(not (operation.takes_lines and isinstance(case.body, list)) or mode is not NEGATIVE)
        case.call_and_validate(checks=CHOSEN, headers=key)

    run()


def test_the_description_is_valid_openapi():
    OpenAPIV31SpecValidator(document(GROUPS)).validate()


def test_the_routes_are_those_of_the_design(client):
    paths = client.get("/openapi.json").json["paths"]
    found = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert found >= {
        ("POST", "/v1/jobs/{job_id}/records"),
        ("GET", "/v1/jobs"),
        ("GET", "/v1/jobs/{job_id}"),
        ("PATCH", "/v1/jobs/{job_id}"),
        ("DELETE", "/v1/jobs/{job_id}"),
        ("GET", "/v1/jobs/{job_id}/report"),
        ("GET", "/v1/jobs/{job_id}/report.{form}"),
        ("GET", "/v1/jobs/{job_id}/revisions"),
        ("GET", "/v1/jobs/{job_id}/intervals"),
        ("POST", "/v1/jobs/{job_id}/rescore"),
        ("GET", "/v1/reports/monthly/{month}"),
        ("POST", "/v1/reports/monthly/{month}"),
        ("GET", "/v1/reports/monthly/{month}.{form}"),
        ("GET", "/v1/projects"),
        ("POST", "/v1/projects"),
        ("GET", "/healthz"),
        ("GET", "/readyz"),
        ("GET", "/metrics"),
    }


def test_documents_have_the_documented_shape(client, light):
    import jsonschema

    described = client.get("/openapi.json").json
    add(light, "job-1", kind="inference")
    report = client.get("/v1/jobs/job-1/report").json
    month = client.get("/v1/reports/monthly/2026-05").json
    assert month["totals"]["energy_kwh"]["value"] == pytest.approx(0.03, rel=1e-12)
    kept = client.post("/v1/reports/monthly/2026-05").json
    assert kept == {**month, "revision": 1, "issued_at": kept["issued_at"]}
    advised = month_document(
        "2026-05",
        [msgspec.convert({**report, "series": []}, JobDoc)],
        ended=True,
        advise=lambda jobs: for_month(jobs, load_catalog()),
    )
    # The table of factors has its own tests.
    alike({**month, "factors": []}, {**msgspec.to_builtins(advised), "factors": []})
    assert month["suggestions"]
    for name, found in (("JobDoc", report), ("MonthDoc", month)):
        shape = {"$ref": f"#/components/schemas/{name}", "components": described["components"]}
        jsonschema.validate(found, shape)


def test_a_body_nested_100_000_deep_is_refused_not_a_failure(client, light):
    add(light)
    deep = b"[" * 100_000
    refused = client.post("/v1/jobs/job-1/rescore", data=deep, content_type="application/json")
    assert (refused.status_code, refused.json["code"]) == (400, "bad-json")
    answer = client.post(
        "/v1/jobs/job-1/records", data=deep + b"\n" + body(journal()), content_type=NDJSON
    )
    assert (answer.status_code, answer.json["duplicate"]) == (200, 9)
    assert [(r["line"], r["code"]) for r in answer.json["rejected"]] == [(1, "bad-json")]


def test_every_problem_code_is_documented():
    from pathlib import Path

    text = (Path(__file__).parents[3] / "docs" / "reference" / "server.md").read_text()
    assert [code for code in CODES if f"`{code}`" not in text] == []
