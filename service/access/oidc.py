"""Sign in by an OpenID Connect provider: authorization code with PKCE, and what a token must say.

The provider's answers are checked as OpenID Connect Core 1.0, section 3.1.3.7, says.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from importlib.util import find_spec
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import sqlalchemy as sa
from requests import RequestException

from gramwatt.collectors.settings.files import why
from gramwatt.collectors.settings.http import new_session, reach_directly, unreached
from gramwatt.collectors.settings.installation import install_command
from gramwatt.sci.figures.printable import clean
from gramwatt.service.access.keys import digest, new_token
from gramwatt.service.access.sessions import add
from gramwatt.service.common.errors import BusyError, LoginError
from gramwatt.service.config import ConfigError, OidcConfig
from gramwatt.service.container import Caller, Service
from gramwatt.service.scopes import ADMIN, READ
from gramwatt.service.store.access import BrowserSession

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

STATE, STATE_LASTS = "state", timedelta(minutes=10)
TIMEOUT_S = 3.0
EXCHANGES = 2
"""Sign-ins of a process that may wait for the provider at once; others keep their threads."""
LEEWAY_S = 60
"""How far the provider's clock may be off [s]."""
ALGORITHMS = ("RS256", "PS256", "ES256", "EdDSA")
SCOPE = "openid profile email"
DESCRIBED_S = 3600.0
"""How long a provider's description of itself is used [s]."""
NAME_LENGTH_MAX = 200
TIMES = ("iat", "nbf", "exp")
"""Claims that are times, which a clock that is off makes wrong."""
_log = logging.getLogger("gramwatt.service")
_exchanges = BoundedSemaphore(EXCHANGES)
_descriptions: dict[str, tuple[float, Mapping[str, Any]]] = {}


def require_usable(oidc: OidcConfig) -> None:
    """Raise ConfigError where the packages of the extra `team` are missing, or the secret cannot be
    read.
    """
    if any(find_spec(name) is None for name in ("authlib", "joserfc")):
        how = install_command("team")
        raise ConfigError(f"GRAMWATT_OIDC_ISSUER needs more packages; to install them: {how}")
    try:
        oidc.client_secret()
    except (OSError, ValueError) as error:
        name = f"GRAMWATT_OIDC_CLIENT_SECRET_FILE={str(oidc.secret_file)!r}"
        raise ConfigError(f"{name} cannot be read: {why(error)}") from None


def begin(service: Service, oidc: OidcConfig, redirect_uri: str) -> tuple[str, str]:
    """Return where to send the browser, and the state that it has to bring back; raises
    LoginError.
    """
    endpoint = _provider(oidc)["authorization_endpoint"]
    nonce, verifier = new_token(), new_token()
    stored_state = Caller(json.dumps([nonce, verifier]), scope="")
    with service.store.write() as session:
        state = add(service, session, STATE, stored_state, STATE_LASTS)
    client = _client(oidc, redirect_uri)
    url, _ = client.create_authorization_url(
        endpoint, state=state, nonce=nonce, code_verifier=verifier
    )
    return str(url), state


class Callback(NamedTuple):
    """What the provider sent the browser back with: a code, or why there is none."""

    state: str
    code: str = ""
    error: str = ""
    description: str = ""


def finish(
    service: Service, oidc: OidcConfig, redirect_uri: str, callback: Callback, address: str
) -> Caller:
    """Return the caller whom the provider names; a state works once.

    Raises LoginError, whose text the log has too, or BusyError where too many sign in at once.
    """
    try:
        if callback.error:  # RFC 6749, section 4.1.2.1
            words = f"{callback.error} {callback.description}".strip()
            raise LoginError(f"the provider did not let you in: {clean(words)[:200]}")
        provider = _provider(oidc)
        with _one_exchange():
            claims = _exchanged(service, oidc, provider, redirect_uri, callback)
            return _caller(oidc, claims, address)
    except LoginError as error:
        _log.warning("sign-in refused: %s", error)
        raise


@contextmanager
def _one_exchange() -> Iterator[None]:
    if not _exchanges.acquire(blocking=False):
        raise BusyError("others are being signed in; load this page again")
    try:
        yield
    finally:
        _exchanges.release()


def _exchanged(
    service: Service,
    oidc: OidcConfig,
    provider: Mapping[str, Any],
    redirect_uri: str,
    callback: Callback,
) -> Mapping[str, Any]:
    nonce, verifier = _consume_state(service, callback.state)
    try:
        token = _client(oidc, redirect_uri).fetch_token(
            provider["token_endpoint"],
            code=callback.code,
            code_verifier=verifier,
            timeout=TIMEOUT_S,
        )
    except Exception as error:  # of requests, of authlib, or of a document that is none
        reason = getattr(error, "error", None) or type(error).__name__  # such as invalid_client
        raise LoginError(f"the provider refused ({clean(str(reason))[:80]})") from None
    return _verified(service, oidc, str(token.get("id_token", "")), _signing_keys(provider), nonce)


def _signing_keys(provider: Mapping[str, Any]) -> KeySet:
    """Return the provider's keys but those that are of no use here (RFC 7517, section 5)."""
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet, import_key

    try:
        with new_session(repeats=False) as session:
            rows = list(session.get(provider["jwks_uri"], timeout=TIMEOUT_S).json()["keys"])
    except (RequestException, ValueError, LookupError, TypeError) as error:
        raise LoginError(f"the provider's keys cannot be had ({type(error).__name__})") from None
    keys = []
    for row in (row for row in rows if isinstance(row, dict)):
        with suppress(JoseError, ValueError, LookupError, TypeError, AttributeError):
            keys.append(import_key(row))
    return KeySet(keys)


def _client(oidc: OidcConfig, redirect_uri: str) -> Any:
    from authlib.integrations.requests_client import OAuth2Session

    session = OAuth2Session(
        oidc.client_id,
        oidc.client_secret(),
        scope=SCOPE,
        redirect_uri=redirect_uri,
        code_challenge_method="S256",
    )
    reach_directly(session)
    return session


def _provider(oidc: OidcConfig) -> Mapping[str, Any]:
    """Return the provider's own description, at most an hour old where it answers."""
    asked_s, description = _descriptions.get(oidc.issuer, (0.0, None))
    if description is None or time.monotonic() - asked_s > DESCRIBED_S:
        try:
            with _one_exchange():
                description = _described(oidc.issuer)
        except (BusyError, LoginError):
            if description is None:
                raise
        _descriptions[oidc.issuer] = time.monotonic(), description
    return description


def _described(issuer: str) -> dict[str, Any]:
    """Ask the provider for its own description."""
    try:
        with new_session(repeats=False) as session:
            url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
            description = session.get(url, timeout=TIMEOUT_S).json()
        if description["issuer"] != issuer:
            raise LoginError("the provider names another issuer than GRAMWATT_OIDC_ISSUER")
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            if urlsplit(description[name]).scheme != urlsplit(issuer).scheme:
                raise LoginError(f"the provider's {name} is not {urlsplit(issuer).scheme}")
    except RequestException as error:
        raise LoginError(f"the provider does not answer ({unreached(error)[0]})") from None
    except (ValueError, KeyError, TypeError) as error:
        raise LoginError(f"the provider does not answer ({type(error).__name__})") from None
    return dict(description)


def _consume_state(service: Service, state: str) -> list[str]:
    """Return what was kept under the state, which is used up by that."""
    statement = (
        BrowserSession.digest == digest(state),
        BrowserSession.kind == STATE,
        BrowserSession.expires_us > service.now_us(),
    )
    gone = sa.delete(BrowserSession).where(*statement).returning(BrowserSession.name)
    with service.store.write() as session:
        states = session.scalars(gone).all()
    if not states:
        raise LoginError("this sign-in was used already, or took too long; start again")
    state_parts: list[str] = json.loads(states[0])
    return state_parts


def _verified(
    service: Service, oidc: OidcConfig, token: str, keys: KeySet, nonce: str
) -> Mapping[str, Any]:
    """Return the claims of a token that is signed, for us, now, and of this sign-in."""
    from joserfc import jwt
    from joserfc.errors import ClaimError, JoseError

    rules = jwt.JWTClaimsRegistry(
        now=int(service.now().timestamp()),
        leeway=LEEWAY_S,
        iss={"essential": True, "value": oidc.issuer},
        aud={"essential": True, "value": oidc.client_id},
        iat={"essential": True},
        nonce={"essential": True, "value": nonce},
        exp={"essential": True},
        sub={"essential": True},
    )
    try:
        claims = jwt.decode(token, keys, algorithms=list(ALGORITHMS)).claims
        rules.validate(claims)
    except ClaimError as error:
        text = f"the provider's token does not hold: {error.claim}"
        if error.claim in TIMES:
            text += f", while the clock here says {service.now():%Y-%m-%d %H:%M:%S} UTC"
        raise LoginError(text) from None
    except (JoseError, ValueError, KeyError, TypeError) as error:
        raise LoginError(f"the provider's token does not hold ({type(error).__name__})") from None
    if claims.get("azp", oidc.client_id) != oidc.client_id:
        raise LoginError("the provider's token is for another client")
    return claims


def _caller(oidc: OidcConfig, claims: Mapping[str, Any], address: str) -> Caller:
    name = _name(oidc, claims)
    groups = _groups(oidc.groups_claim, claims)
    for scope, allowed in ((ADMIN, oidc.admin_groups), (READ, oidc.read_groups)):
        if groups & set(allowed):
            return Caller(name, address, scope)
    if own := [access for access in oidc.projects if access.group in groups]:
        scope = ADMIN if all(access.scope == ADMIN for access in own) else READ
        return Caller(name, address, scope, frozenset().union(*(group.projects for group in own)))
    raise LoginError(f"you are in no group that may sign in here, of {len(groups)} that you are in")


def _groups(name: str, claims: Mapping[str, Any]) -> set[str]:
    """Return the reader's groups in a claim, which may be one text, or lie in another
    (`realm_access.roles`); raises LoginError where the token has none.
    """
    value: Any = claims
    for part in (name,) if name in claims else name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if isinstance(value, str):
        return {value}
    if isinstance(value, list):
        return set(map(str, value))
    elsewhere = claims.get("_claim_names")
    if claims.get("hasgroups") or (isinstance(elsewhere, Mapping) and name in elsewhere):
        raise LoginError(
            "you are in more groups than the provider writes into a token; have it write only "
            "those that are assigned to this application"
        )
    raise LoginError(
        f"the provider's token has no claim {name!r} with your groups; have it send one, or name "
        "another in GRAMWATT_OIDC_GROUPS_CLAIM"
    )


def _name(oidc: OidcConfig, claims: Mapping[str, Any]) -> str:
    """Return who signs in: the verified email, else subject and host of the issuer.

    Other claims may be chosen by the person, or be given to another one later (OpenID Connect
    Core 1.0, section 5.7). Raises LoginError for a name that no log can show as it is.
    """
    email = claims.get("email")
    verified = claims.get("email_verified") is True and isinstance(email, str) and "@" in email
    name = str(email) if verified else f"{claims['sub']}@{urlsplit(oidc.issuer).netloc}"
    if not name.isprintable() or len(name) > NAME_LENGTH_MAX:
        raise LoginError("the provider's name of you has signs that cannot be shown, or too many")
    return name
