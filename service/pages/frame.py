"""What all pages share: their policies, the frame around them, and parameters of an address."""

from __future__ import annotations

from collections.abc import Callable

from flask import Blueprint, Response, g, render_template, request

from gramwatt.reports.model import MARK_LEGEND
from gramwatt.sci.figures.checks import fields_of
from gramwatt.service.api import problems
from gramwatt.service.api.access import Access, declared, whole_service
from gramwatt.service.api.routing import Model, from_strings
from gramwatt.service.pages.filters import FILTERS
from gramwatt.service.scopes import ADMIN

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; "
    "img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
ENTRY_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HTML = "text/html; charset=utf-8"
PER_PAGE = 50
View = Callable[..., Response]

pages = Blueprint("page", __name__)
pages.record(lambda state: state.app.jinja_env.filters.update(FILTERS))
pages.record(lambda state: declared(state.app).update(static=Access.READ))


def route(rule: str, access: Access, method: str = "GET") -> Callable[[View], View]:
    """Declare a page, and who may see it."""

    def register(view: View) -> View:
        pages.add_url_rule(rule, view_func=view, methods=[method], provide_automatic_options=False)
        name = f"{pages.name}.{view.__name__}"
        pages.record(lambda state: declared(state.app).update({name: access}))
        return view

    return register


def page(template: str, *, policy: str = PAGE_POLICY, **values: object) -> Response:
    """Return a page of the site; a browser asks again each time, because figures change."""
    response = Response(render_template(template, **values), content_type=HTML)
    response.headers["Content-Security-Policy"] = policy
    response.headers["Cache-Control"] = "private, no-cache"
    # Without a referrer browsers send "Origin: null" with a form, which is nobody's own.
    response.headers["Referrer-Policy"] = "same-origin"
    return response


def query(model: type[Model]) -> Model:
    """Return the parameters that the model has; an empty one was not chosen."""
    values: dict[str, str | list[str]] = {}
    for name, field in fields_of(model).items():
        texts = [text.strip() for text in request.args.getlist(name) if text.strip()]
        if texts:
            values[name] = texts if field.default_factory is list else texts[0]
    return from_strings(model, values, "query")


@pages.app_context_processor
def _about_the_reader() -> dict[str, object]:
    """Return what the frame shows of the reader: the name, and which pages of the operation are
    theirs.
    """
    caller = g.get("caller")
    sees_all = caller is not None and caller.projects is None
    return {
        "reader": caller,
        "legend": MARK_LEGEND,
        "sees_all": sees_all,
        "is_admin": sees_all and caller.may(ADMIN),
    }


@pages.after_app_request
def _problem_page(response: Response) -> Response:
    """Turn a problem document into a page for a reader who prefers HTML."""
    is_page = (request.endpoint or "page.").startswith("page.")
    best = request.accept_mimetypes.best_match([problems.MEDIA_TYPE, "text/html"])
    if response.mimetype != problems.MEDIA_TYPE or not is_page or best != "text/html":
        return response
    # Who has no key gets no style sheet either.
    locked = response.status_code == 401
    name, policy = ("locked", ENTRY_POLICY) if locked else ("problem", PAGE_POLICY)
    provider = whole_service().config.oidc is not None
    values = {"problem": response.get_json(), "provider": provider}
    response.set_data(render_template(f"frame/{name}.html", **values))
    response.content_type = HTML
    response.headers["Content-Security-Policy"] = policy
    response.headers["Vary"] = "Accept"
    return response
