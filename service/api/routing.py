"""Routes with typed inputs: the annotations of a view define what is parsed, strictly.

A view takes keyword arguments out of `path`, `query` and `body`, each annotated with a
struct; what its structs do not know is refused. It returns a struct, or a `Response`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partialmethod
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints
from urllib.parse import unquote_to_bytes

import msgspec
from flask import Blueprint, Response, request
from msgspec import Struct

from gramwatt import __version__
from gramwatt.sci.figures.checks import InputError, parse, types_of
from gramwatt.service.api.access import Access, declared
from gramwatt.service.api.problems import Problem, invalid, of_input
from gramwatt.service.store.columns import to_text

IF_MATCH, IF_NONE_MATCH = "If-Match", "If-None-Match"


def tag_of(*parts: object) -> str:
    """Return a strong entity tag of what identifies an answer; another release renders
    otherwise.
    """
    text = "\n".join(map(str, (__version__, *parts)))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def reader_has(tag: str) -> bool:
    """Return whether the reader says that it has the answer of this tag."""
    return request.if_none_match.contains_weak(tag)


def with_tag(response: Response, tag: str) -> Response:
    """Return the answer with its tag; without its body, as 304, where the reader has it."""
    if reader_has(tag):
        response = Response(status=304)
    response.set_etag(tag)
    response.headers["Cache-Control"] = "private, no-cache"
    return response


def tagged(response: Response) -> Response:
    """Return an answer to GET with a tag, that of its bytes where it has no other."""
    if response.status_code != 200 or "ETag" in response.headers:
        return response
    return with_tag(response, tag_of(response.mimetype, response.get_data()))


def if_match() -> Callable[[str], bool] | None:
    """Return whether a state of the job, given as its version, is the one the caller means; None
    for any.

    The version is that of a job's head, as the tag of `GET /v1/jobs/{job_id}` has it.
    """
    if IF_MATCH not in request.headers:
        return None
    # A tag is of a job's state, not of bytes: one that a proxy made weak, as nginx does where it
    # packs an answer, says as much.
    tags = request.if_match
    return lambda version: tags.contains_weak(tag_of(version))


JSON = "application/json"
NDJSON = "application/x-ndjson"
JSON_MOST_B = 2**20
"""The largest JSON body; no question needs a tenth of it."""
View = Callable[..., Any]
Model = TypeVar("Model", bound=Struct)


class Nothing(Struct):
    """An input without any field."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one route, and everything its documentation needs."""

    method: str
    rule: str
    view: View
    answers: Mapping[str, type | None]
    problems: tuple[str, ...]
    access: Access
    takes_lines: bool = False
    status: int = 200
    headers: tuple[str, ...] = ()
    hints: Mapping[str, Any] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """The rule as OpenAPI writes it, with names in braces."""
        return re.sub(r"<(?:path:)?([a-z_]+)>", r"{\1}", self.rule)

    @property
    def path(self) -> type[Struct]:
        """Model of the values in the path."""
        return self.hints.get("path", Nothing)  # type: ignore[no-any-return]

    @property
    def query(self) -> type[Struct]:
        """Model of the parameters after the question mark."""
        return self.hints.get("query", Nothing)  # type: ignore[no-any-return]

    @property
    def body(self) -> type[Struct] | None:
        """Model of the JSON body; None where the route takes none."""
        return self.hints.get("body")

    def respond(self, **path_values: str) -> Response:
        """Parse the request, call the view and serialise what it returns."""
        inputs: dict[str, Any] = {
            "path": from_strings(self.path, path_values, "path"),
            "query": from_strings(self.query, _parameters(self.query), "query"),
        }
        if self.body is not None:
            inputs["body"] = _from_body(self.body)
        arguments = {name: value for name, value in inputs.items() if name in self.hints}
        answer = self.view(**arguments)
        response = answer if isinstance(answer, Response) else json_response(answer, self.status)
        return tagged(response) if self.method == "GET" else response


class Routes:
    """The operations of one subject, on a blueprint of its name."""

    def __init__(self, subject: str) -> None:
        self.blueprint = Blueprint(subject, __name__)
        self.operations: list[Operation] = []

    def _route(
        self,
        method: str,
        rule: str,
        *problems: str,
        access: Access,
        media: Mapping[str, type | None] | None = None,
        lines: bool = False,
        status: int = 200,
        headers: tuple[str, ...] = (),
    ) -> Callable[[View], View]:
        """Declare a route, who may call it, and the problems it may answer with.

        `media` are its answers by media type, JSON of what the view returns by default. With
        `lines` its body is NDJSON, which the view reads itself; `headers` are those it reads.
        """

        def register(view: View) -> View:
            hints = get_type_hints(view)
            result = hints.pop("return", None)
            operation = Operation(
                method,
                rule,
                view,
                media or {JSON: result},
                problems,
                access,
                lines,
                status,
                headers,
                hints,
            )
            self.operations.append(operation)
            # A name with two slashes is another one: it is not led to that with one.
            merge = "<path:" not in rule
            self.blueprint.add_url_rule(
                rule, view.__name__, operation.respond, methods=[method], merge_slashes=merge
            )
            name = f"{self.blueprint.name}.{view.__name__}"
            self.blueprint.record(lambda state: declared(state.app).update({name: access}))
            return view

        return register

    get = partialmethod(_route, "GET", headers=(IF_NONE_MATCH,))
    post = partialmethod(_route, "POST")
    put = partialmethod(_route, "PUT")
    patch = partialmethod(_route, "PATCH")
    delete = partialmethod(_route, "DELETE")


def json_response(document: object, status: int = 200) -> Response:
    """Return an answer in JSON."""
    return Response(to_text(document), status, content_type=JSON)


def body_of_type(media_type: str) -> bytes:
    """Return the request's body; raises Problem when it is of another type or compressed."""
    if request.mimetype != media_type:
        raise Problem("unsupported-media-type", f"send Content-Type: {media_type}")
    if request.headers.get("Content-Encoding", "identity") != "identity":
        raise Problem("unsupported-media-type", "send the body uncompressed")
    return request.get_data(cache=False)


def _parameters(model: type[Struct]) -> dict[str, str | list[str]]:
    """Return the parameters of the request; one may be repeated where the model has a list."""
    try:
        unquote_to_bytes(request.query_string).decode()
    except UnicodeDecodeError:
        raise invalid("query", "is not UTF-8", "encoding") from None
    types = types_of(model)
    by_name: dict[str, str | list[str]] = {}
    for name, values in request.args.lists():
        kind = types.get(name)
        if get_origin(get_args(kind)[0] if get_origin(kind) is Annotated else kind) is list:
            by_name[name] = values
        elif len(values) > 1:
            raise invalid(f"query.{name}", "given more than once", "repeated")
        else:
            by_name[name] = values[0]
    return by_name


def from_strings(model: type[Model], values: Mapping[str, Any], where: str) -> Model:
    """Return the model of texts out of an address; raises Problem, naming `where`, for one it
    refuses.
    """
    try:
        return parse(model, values, strict=False)
    except InputError as error:
        raise of_input(error, where) from None


def _once(pairs: list[tuple[str, object]]) -> None:
    """Raise ValueError for an object with a field twice, of which the last alone would count."""
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the field {twice[:40]!r} stands twice")


def _from_body(model: type[Model]) -> Model:
    body = body_of_type(JSON)
    if len(body) > JSON_MOST_B:
        raise Problem("body-too-large", f"a JSON body has at most {JSON_MOST_B // 2**20} MiB")
    try:
        document = msgspec.json.decode(body)
        json.loads(body, object_pairs_hook=_once)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Problem("bad-json", f"{error}; send one JSON document") from None
    if not isinstance(document, dict):
        raise invalid("body", "is not an object", "bad-field")
    try:
        return parse(model, document)
    except InputError as error:
        raise of_input(error, "body") from None
