"""How a browser gets in and out: a link that works once becomes a session's cookie."""

from __future__ import annotations

import hmac

from flask import Response, redirect, render_template, request

from gramwatt.service.access import oidc
from gramwatt.service.access.sessions import (
    LINK_LASTS,
    end_sessions_of,
    exchange_link,
    open_session,
    sign_out,
)
from gramwatt.service.api.access import Access, cookie_name, whole_service
from gramwatt.service.api.problems import Problem
from gramwatt.service.api.support import service
from gramwatt.service.config import OidcConfig
from gramwatt.service.pages.frame import ENTRY_POLICY, route

STATE_COOKIE = "gramwatt-sign-in"
USED = (
    "This link was used already, or is older than "
    f"{LINK_LASTS.total_seconds() / 60:.0f} minutes. Make another: gramwatt serve --link"
)


@route("/login", Access.LOGIN)
def login() -> Response:
    """Exchange the link's token for a cookie; without one, go to the provider if there is one."""
    token = request.args.get("token", "")
    if not token and (provider := whole_service().config.oidc) is not None:
        return _to_provider(provider)
    address = request.remote_addr or "local"
    cookie = exchange_link(whole_service(), token, address) if token else None
    if cookie is None:
        raise Problem("unauthorised", USED if token else "Open the link of: gramwatt serve --link")
    return enter(cookie)


def _to_provider(provider: OidcConfig) -> Response:
    url, state = oidc.begin(whole_service(), provider, _callback_url())
    response = Response(status=303, headers={"Location": url, "Cache-Control": "no-store"})
    # Lax: the provider's site sends the browser back. It binds the sign-in to this browser.
    response.set_cookie(
        STATE_COOKIE,
        state,
        max_age=oidc.STATE_LASTS,
        httponly=True,
        samesite="Lax",
        secure=request.is_secure,
        path="/login",
    )
    return response


@route("/login/callback", Access.LOGIN)
def callback() -> Response:
    """Take what the provider sent the browser back with, and open a session."""
    provider, state = whole_service().config.oidc, request.args.get("state", "")
    begun = request.cookies.get(STATE_COOKIE, "")
    if provider is None or not state or not hmac.compare_digest(state.encode(), begun.encode()):
        raise Problem("unauthorised", "this sign-in was not begun in this browser; start again")
    caller = oidc.finish(
        whole_service(),
        provider,
        _callback_url(),
        oidc.Callback(
            state, *(request.args.get(name, "") for name in ("code", "error", "error_description"))
        ),
        request.remote_addr or "local",
    )
    response = enter(open_session(whole_service(), caller))
    response.delete_cookie(STATE_COOKIE, path="/login")
    return response


def _callback_url() -> str:
    return f"{request.scheme}://{request.host}/login/callback"


@route("/logout", Access.READ, method="POST")
def logout() -> Response:
    """End the session, or every session of the person."""
    if cookie := request.cookies.get(cookie_name()):
        if "everywhere" in request.form:
            end_sessions_of(service(), service().caller.name)
        else:
            sign_out(service(), cookie)
    response = redirect("/", 303)
    response.delete_cookie(cookie_name())
    return response  # type: ignore[return-value]


def enter(cookie: str) -> Response:
    """Return a page that sets the session's cookie and goes on to `/` by itself.

    No redirect: when the reader came from another site, the browser would follow it without the
    cookie, which is only for requests that this site itself starts.
    """
    response = Response(
        render_template("frame/entered.html"), content_type="text/html; charset=utf-8"
    )
    response.set_cookie(
        cookie_name(),
        cookie,
        max_age=whole_service().config.session_lasts,
        httponly=True,
        samesite="Strict",
        secure=request.is_secure,
    )
    response.headers["Content-Security-Policy"] = ENTRY_POLICY
    response.headers["Cache-Control"] = "no-store"
    return response
