"""How a browser gets in and out: a link that works once becomes a session's cookie."""

from __future__ import annotations

from flask import Flask, Response, redirect, render_template, request

from gramwatt.service.api.access import Access, cookie_name, declare, whole_service
from gramwatt.service.api.problems import Problem
from gramwatt.service.usecases.access.sessions import (
    COOKIE_LASTS,
    LINK_LASTS,
    end_session,
    exchange_link,
)

ENTRY_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
USED = (
    "This link was used already, or is older than "
    f"{LINK_LASTS.total_seconds() / 60:.0f} minutes. Make another: gramwatt login"
)


def install(app: Flask) -> None:
    """Put the pages on the app."""
    for rule, view, methods, access in (
        ("/login", login, ["GET"], Access.LOGIN),
        ("/logout", logout, ["POST"], Access.READ),
    ):
        name = f"page.{view.__name__}"
        app.add_url_rule(rule, name, view, methods=methods, provide_automatic_options=False)
        declare(app, name, access)


def login() -> Response:
    """Exchange the link's token for a cookie, and go on to the pages without the token."""
    token = request.args.get("token", "")
    cookie = exchange_link(whole_service(), token) if token else None
    if cookie is None:
        raise Problem("unauthorised", USED if token else "Open the link of: gramwatt login")
    return enter(cookie)


def logout() -> Response:
    """End the session."""
    if cookie := request.cookies.get(cookie_name()):
        end_session(whole_service(), cookie)
    response = redirect("/", 303)
    response.delete_cookie(cookie_name())
    return response  # type: ignore[return-value]


def enter(cookie: str) -> Response:
    """A page that sets the session's cookie and goes on to `/` by itself.

    No redirect: when the reader came from another site, the browser would follow it without the
    cookie, which is only for requests that this site itself starts.
    """
    response = Response(render_template("entered.html"), content_type="text/html; charset=utf-8")
    response.set_cookie(
        cookie_name(),
        cookie,
        max_age=COOKIE_LASTS,
        httponly=True,
        samesite="Strict",
        secure=request.is_secure,
    )
    response.headers["Content-Security-Policy"] = ENTRY_POLICY
    response.headers["Cache-Control"] = "no-store"
    return response
