"""The OpenAPI 3.1 document, made from the routes' models and docstrings."""

from __future__ import annotations

import atexit
import gc
import inspect
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from gramwatt import __version__
from gramwatt.service.api.jobs import line_array, line_body, line_schemas
from gramwatt.service.api.problems import CODES, MEDIA_TYPE
from gramwatt.service.api.routing import IF_MATCH, IF_NONE_MATCH, JSON, NDJSON, Operation, Routes
from gramwatt.service.api.support import IDEMPOTENCY_KEY, KEY_PATTERN

# What msgspec 0.22 keeps of described structs is freed twice by the collection at the interpreter's
# end, which a process then ends with SIGSEGV. What is frozen is not collected.
atexit.register(gc.freeze)

_REF, _NAMED_REF = "#/components/schemas/{model}", "#/components/schemas/{name}"
_ALWAYS = ("invalid", "internal", "not-ready")
_WITH_KEY = ("unauthorised", "forbidden", "untrusted-host", "too-many-requests")
_WITH_BODY = ("bad-request", "body-too-large", "unsupported-media-type")


class FieldError(Struct):
    """One thing wrong with an input: where, a code and a sentence."""

    where: str
    code: str
    message: str


_PROBLEM = {
    "title": "Problem",
    "description": "An error (RFC 9457). `code` is stable across releases.",
    "type": "object",
    "required": ["type", "title", "status", "code", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string", "enum": sorted(CODES)},
        "detail": {"type": "string"},
        "errors": {"type": "array", "items": {"$ref": "#/components/schemas/FieldError"}},
    },
}


HEADERS: dict[str, dict[str, Any]] = {
    IF_NONE_MATCH: {
        "schema": {"type": "string"},
        "description": "ETags that the caller has; an answer with one of them comes as 304.",
    },
    IF_MATCH: {
        "schema": {"type": "string"},
        "description": "The ETag of `GET /v1/jobs/{job_id}` that the change is meant for; 412 where"
        " the job has changed since.",
    },
    IDEMPOTENCY_KEY: {
        "schema": {"type": "string", "pattern": f"^{KEY_PATTERN}$"},
        "description": "Any text of the caller's own. A request that is sent again with it within"
        " a day gets the first answer and changes nothing.",
    },
}
"""Headers that operations read, as parameters."""
_BY_HEADER = {IF_MATCH: ("changed",), IDEMPOTENCY_KEY: ("key-reused", "conflict")}
_ETAG = {"ETag": {"schema": {"type": "string"}, "description": "Identifies this answer."}}


def document(groups: Iterable[Routes]) -> dict[str, Any]:
    """Return the description of all routes of the groups."""
    pairs = [
        (group.blueprint.name, operation) for group in groups for operation in group.operations
    ]
    refs, schemas = _schemas(operation for _, operation in pairs)
    paths: dict[str, dict[str, Any]] = {}
    for tag, operation in pairs:
        described = _operation(operation, tag, refs)
        paths.setdefault(operation.address, {})[operation.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "gramwatt",
            "version": __version__,
            "description": "SCI scores and reports of AI jobs. Unknown parameters and fields are "
            "refused; errors are problem documents; times are UTC.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A key of the scope that the operation names, or of scope admin:"
                    " gramwatt admin key create NAME --scope SCOPE.",
                }
            },
        },
    }


_Refs = dict[Any, dict[str, Any]]


def _schemas(operations: Iterable[Operation]) -> tuple[_Refs, dict[str, Any]]:
    """Return the schema of each body and answer, and all that they refer to, by name."""
    shapes: dict[Any, None] = {FieldError: None}
    for operation in operations:
        statement = (operation.body, *operation.answers.values())
        shapes |= dict.fromkeys(shape for shape in statement if shape is not None)
    refs, schemas = msgspec.json.schema_components(shapes, ref_template=_NAMED_REF)
    components = msgspec.json.decode(
        msgspec.json.encode(schemas)
    )  # defaults that are tuples are lists
    for schema in components.values():
        if "properties" in schema:
            schema["additionalProperties"] = False
            for field in schema["properties"].values():
                if field.get("default") == []:  # as if it were left out, which may be too short
                    del field["default"]
        schema["description"] = " ".join(schema.get("description", "").split())
    by_shape = dict(zip(shapes, refs, strict=True))
    return by_shape, {**components, **line_schemas(_REF), "Problem": _PROBLEM}


def _operation(operation: Operation, tag: str, refs: _Refs) -> dict[str, Any]:
    summary, _, description = (inspect.getdoc(operation.view) or "").partition("\n\n")
    described: dict[str, Any] = {
        "operationId": operation.view.__name__,
        "tags": [tag],
        "summary": summary.replace("\n", " "),
        "parameters": [
            *_parameters(operation.path, "path"),
            *_parameters(operation.query, "query"),
            *({"name": name, "in": "header", **HEADERS[name]} for name in operation.headers),
        ],
        "responses": _responses(operation, refs),
    }
    if scopes := operation.access.scopes:
        described["security"] = [{"key": [scope]} for scope in scopes]
    if description:
        described["description"] = description
    if operation.takes_lines:
        content = {NDJSON: line_body(_REF), JSON: {"schema": line_array(_REF)}}
        described["requestBody"] = {"required": True, "content": content}
    elif operation.body is not None:
        content = {JSON: {"schema": refs[operation.body]}}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _parameters(model: type[msgspec.Struct], place: str) -> list[dict[str, Any]]:
    _, components = msgspec.json.schema_components([model], ref_template=_NAMED_REF)
    schema = components[model.__name__]
    required = schema.get("required", [])
    return [
        {"name": name, "in": place, "required": name in required, "schema": _plain(value)}
        for name, value in schema.get("properties", {}).items()
    ]


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a parameter's schema without "or null": a parameter left out is how it is null."""
    choices = [item for item in schema.get("anyOf", []) if item.get("type") != "null"]
    rest = {k: v for k, v in schema.items() if k not in ("anyOf", "title", "default")}
    if len(choices) == 1:
        return {**rest, **choices[0]}
    return {**rest, **({"default": schema["default"]} if schema.get("default") is not None else {})}


def _responses(operation: Operation, refs: _Refs) -> dict[str, Any]:
    content = {
        media: {"schema": refs[shape]} if shape else {}
        for media, shape in operation.answers.items()
    }
    codes = [*_ALWAYS, *operation.problems]
    for name in operation.headers:
        codes += _BY_HEADER.get(name, ())
    if operation.access.scopes:
        codes += _WITH_KEY
    if operation.body is not None or operation.takes_lines:
        codes += _WITH_BODY
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(CODES[code][0], []).append(CODES[code][1])
    problem = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    answer = {"description": "The answer.", "content": content}
    responses: dict[str, Any] = {str(operation.status): answer}
    if operation.method == "PUT":
        responses["201"] = {**answer, "description": "Made; the answer."}
    if operation.method == "GET":
        responses["200"] = {**answer, "headers": _ETAG}
        responses["304"] = {"description": "The caller has the answer.", "headers": _ETAG}
    for status, texts in sorted(by_status.items()):
        description = " ".join(dict.fromkeys(texts))
        responses[str(status)] = {"description": description, "content": problem}
    return responses
