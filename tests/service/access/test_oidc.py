"""Sign-in by a provider that runs here, signs with a real key, and can be made to lie."""

import base64
import hashlib
import http.server
import json
import re
import sys
import threading
import urllib.parse
from ipaddress import ip_network
from threading import BoundedSemaphore

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from gramwatt.collectors.settings.installation import install_command
from gramwatt.service.access import oidc
from gramwatt.service.app import create_app
from gramwatt.service.config import ConfigError, OidcConfig, _group_projects, from_environment
from tests.service.keyed import NO_KEY, client_of, with_settings

SAME_SITE = {"Sec-Fetch-Site": "same-origin"}
KEY, OTHER_KEY = (RSAKey.generate_key(2048, {"kid": "k1"}, auto_kid=False) for _ in range(2))


class Provider(http.server.ThreadingHTTPServer):
    """Gives a code for each authorization request, and one ID token for each code."""

    def __init__(self, clock):
        super().__init__(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self.server_port}"
        self.clock, self.asked, self.claims, self.key = clock, {}, {}, KEY
        self.keys = [KEY.as_dict(private=False)]
        self.described, self.go_on = 0, threading.Event()
        self.go_on.set()

    def authorize(self, url):
        """The code and state to go back with, as the provider's page gives them on consent."""
        asked = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query))
        assert (asked["response_type"], asked["client_id"]) == ("code", "grams")
        assert asked["code_challenge_method"] == "S256"
        self.asked[f"code-{len(self.asked)}"] = asked
        return f"code-{len(self.asked) - 1}", asked["state"]

    def token(self, form):
        """The ID token for a code, once, for who can show the verifier."""
        asked = self.asked.pop(form["code"])
        hashed = hashlib.sha256(form["code_verifier"].encode()).digest()
        assert base64.urlsafe_b64encode(hashed).rstrip(b"=").decode() == asked["code_challenge"]
        assert form["redirect_uri"] == asked["redirect_uri"]
        now = int(self.clock().timestamp())
        claims = {"iss": self.issuer, "aud": "grams", "sub": "u1", "email": "ada@example.org"}
        claims |= {"email_verified": True}
        claims |= {"iat": now, "exp": now + 300, "nonce": asked["nonce"], "groups": ["staff"]}
        claims = {name: value for name, value in (claims | self.claims).items() if value != ""}
        return jwt.encode({"alg": "RS256", "kid": "k1"}, claims, self.key)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        issuer = self.server.issuer
        if self.path == "/jwks":
            self.answer({"keys": self.server.keys})
        else:
            self.server.described += 1
            self.server.go_on.wait(60)
            names = ("authorization_endpoint", "token_endpoint", "jwks_uri")
            places = dict(zip(names, ("/authorize", "/token", "/jwks"), strict=True))
            self.answer({"issuer": issuer} | {name: issuer + p for name, p in places.items()})

    def do_POST(self):
        form = dict(
            urllib.parse.parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode())
        )
        if form.get("code") not in self.server.asked:
            self.answer({"error": "invalid_grant"}, 400)
        else:
            self.answer(
                {"access_token": "a", "token_type": "Bearer", "id_token": self.server.token(form)}
            )

    def answer(self, document, status=200):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(document).encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def provider(clock):
    with Provider(clock) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture
def browsers(provider, light):
    """Makes a new browser of an app that signs in by the provider."""
    oidc = OidcConfig(
        issuer=provider.issuer,
        client_id="grams",
        admin_groups=("ops",),
        read_groups=("staff",),
        projects=_group_projects("", "vision=vision,video nlp=nlp:admin leads=nlp:admin"),
    )
    app = create_app(service=with_settings(light, oidc=oidc))
    return app.test_client


def sign_in(browser, provider):
    begun = browser.get("/login", headers=NO_KEY)
    assert begun.status_code == 303
    code, state = provider.authorize(begun.headers["Location"])
    return back(browser, code, state)


def back(browser, code, state):
    query = {"code": code, "state": state}
    return browser.get("/login/callback", query_string=query, headers=NO_KEY)


def test_a_reader_signs_in_and_an_admin(browsers, provider):
    reader, admin = browsers(), browsers()
    assert sign_in(reader, provider).status_code == 200
    provider.claims = {"groups": ["ops"], "email": "grace@example.org"}
    assert sign_in(admin, provider).status_code == 200
    assert reader.get("/v1/jobs", headers=NO_KEY).status_code == 200
    assert reader.get("/v1/keys", headers=NO_KEY).status_code == 403
    assert admin.get("/v1/keys", headers=NO_KEY).status_code == 200
    entries = admin.get("/v1/audit", headers=NO_KEY).json["entries"]
    refused = next(entry for entry in entries if entry["action"] == "refused")
    assert (refused["actor"], refused["action"]) == ("ada@example.org", "refused")


@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "another"},
        {"nonce": ""},
        {"aud": "another"},
        {"aud": ""},
        {"aud": ["grams", "another"], "azp": "another"},
        {"iss": "http://127.0.0.1:1"},
        {"exp": 1_000_000_000},
        {"exp": ""},
        {"groups": ["visitors"]},
        {"groups": ""},
    ],
    ids=str,
)
def test_a_token_that_does_not_hold_is_refused(browsers, provider, claims):
    browser, provider.claims = browsers(), claims
    assert sign_in(browser, provider).status_code == 401
    assert browser.get("/v1/jobs", headers=NO_KEY).status_code == 401


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"groups": "", "hasgroups": True}, "more groups than the provider writes"),
        ({"groups": "", "_claim_names": {"groups": "src1"}}, "more groups than the provider"),
        ({"groups": ""}, "no claim 'groups' with your groups"),
        ({"groups": ["visitors", "guests"]}, "no group that may sign in here, of 2 that"),
        ({"iat": 1_800_000_000}, "iat, while the clock here says 2026-06-02 12:00:00 UTC"),
        ({"aud": "another"}, "does not hold: aud"),
    ],
    ids=str,
)
def test_why_a_sign_in_was_refused_is_said_and_logged(browsers, provider, caplog, claims, reason):
    provider.claims = claims
    answer = sign_in(browsers(), provider)
    assert (answer.status_code, reason in answer.json["detail"]) == (401, True), answer.json
    assert reason in caplog.text


def test_a_consent_that_was_refused_is_said_in_the_provider_s_words(browsers, provider, caplog):
    browser = browsers()
    _, state = provider.authorize(browser.get("/login", headers=NO_KEY).headers["Location"])
    query = {"state": state, "error": "access_denied", "error_description": "ask\nyour admin"}
    answer = browser.get("/login/callback", query_string=query, headers=NO_KEY)
    assert answer.status_code == 401
    assert "did not let you in: access_denied ask your admin" in answer.json["detail"]
    assert "access_denied" in caplog.text


def test_a_group_may_be_one_text_or_lie_in_another_claim(browsers, provider, light):
    provider.claims = {"groups": "staff"}
    assert sign_in(browsers(), provider).status_code == 200
    oidc = OidcConfig(
        issuer=provider.issuer,
        client_id="grams",
        groups_claim="realm_access.roles",
        read_groups=("staff",),
    )
    app = create_app(service=with_settings(light, oidc=oidc))
    provider.claims = {"groups": "", "realm_access": {"roles": ["staff"]}}
    assert sign_in(app.test_client(), provider).status_code == 200


def test_a_key_of_an_unknown_curve_or_kind_is_left_aside(browsers, provider):
    unknown = [{"kty": "EC", "crv": "P-1024", "x": "AA", "y": "AA"}, {"kty": "XYZ"}, {}, "x"]
    provider.keys = [*unknown, *provider.keys]
    assert sign_in(browsers(), provider).status_code == 200


@pytest.mark.parametrize(
    ("groups", "scope", "projects"),
    [
        (["vision"], "read", ["video", "vision"]),
        (["nlp", "leads"], "admin", ["nlp"]),
        (["nlp", "vision"], "read", ["nlp", "video", "vision"]),
        (["vision", "staff"], "read", []),
    ],
)
def test_groups_give_projects_and_what_may_be_done_there(
    browsers, provider, groups, scope, projects
):
    browser, provider.claims = browsers(), {"groups": groups}
    assert sign_in(browser, provider).status_code == 200
    (row,) = browser.get("/v1/sessions").json["sessions"]
    assert (row["person"], row["scope"], row["projects"]) == ("ada@example.org", scope, projects)
    declared = browser.post("/v1/projects", json={"project": "nlp"}, headers=NO_KEY | SAME_SITE)
    assert (declared.status_code < 300) is (scope == "admin")


def test_a_provider_may_change_its_keys_between_two_sign_ins(browsers, provider):
    assert sign_in(browsers(), provider).status_code in (200, 303)
    provider.key = RSAKey.generate_key(2048, {"kid": "k1"})
    provider.keys = [provider.key.as_dict(private=False)]
    assert sign_in(browsers(), provider).status_code in (200, 303)


def test_the_way_back_is_by_the_scheme_that_a_proxy_names(provider, light):
    oidc = OidcConfig(issuer=provider.issuer, client_id="grams")
    for proxies, scheme in ((("127.0.0.1",), "https"), ((), "http")):
        believed = tuple(ip_network(one) for one in proxies)
        browser = client_of(light, oidc=oidc, trusted_proxies=believed)
        begun = browser.get("/login", headers=NO_KEY | {"X-Forwarded-Proto": "https"})
        asked = urllib.parse.parse_qs(urllib.parse.urlsplit(begun.headers["Location"]).query)
        assert asked["redirect_uri"][0].partition(":")[0] == scheme


def test_a_token_of_another_key_or_of_none_is_refused(browsers, provider):
    browser, provider.key = browsers(), OTHER_KEY
    assert sign_in(browser, provider).status_code == 401
    header = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    provider.token = lambda form: f"{header}.e30."
    assert sign_in(browser, provider).status_code == 401


def test_an_answer_works_once_and_in_the_browser_that_asked(browsers, provider, clock):
    browser, other = browsers(), browsers()
    code, state = provider.authorize(browser.get("/login", headers=NO_KEY).headers["Location"])
    assert back(other, code, state).status_code == 401
    assert back(browser, code, "another").status_code == 401
    assert back(browser, code, state).status_code == 200
    browser.set_cookie("gramwatt-sign-in", state, path="/login")
    assert back(browser, code, state).status_code == 401
    code, state = provider.authorize(browser.get("/login", headers=NO_KEY).headers["Location"])
    clock.turn(minutes=11)
    assert back(browser, code, state).status_code == 401


def test_a_provider_that_is_away_is_said(browsers, provider, light):
    oidc = OidcConfig(issuer="http://127.0.0.1:1", client_id="grams")
    app = create_app(service=with_settings(light, oidc=oidc))
    answer = app.test_client().get("/login", headers=NO_KEY)
    assert (answer.status_code, answer.json["code"]) == (401, "unauthorised")
    assert "does not answer" in answer.json["detail"]


def test_the_provider_is_asked_once_for_its_description(browsers, provider):
    for _ in range(3):
        assert sign_in(browsers(), provider).status_code == 200
    assert provider.described == 1


def test_a_slow_provider_holds_two_requests_and_then_no_more(browsers, provider, monkeypatch):
    monkeypatch.setattr(oidc, "TIMEOUT_S", 0.2)
    provider.go_on.clear()
    browser = browsers()
    with oidc._exchanges, oidc._exchanges:
        refused = browser.get("/login", headers=NO_KEY)
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "10")
    assert provider.described == 0
    answer = browser.get("/login", headers=NO_KEY)
    assert (answer.status_code, "does not answer" in answer.json["detail"]) == (401, True)
    provider.go_on.set()
    assert browser.get("/login", headers=NO_KEY).status_code == 303


def test_what_a_provider_said_of_itself_holds_while_it_is_away(browsers, provider, monkeypatch):
    browser = browsers()
    assert browser.get("/login", headers=NO_KEY).status_code == 303
    monkeypatch.setattr(oidc, "TIMEOUT_S", 0.2)
    monkeypatch.setattr(oidc, "DESCRIBED_S", 0.0)
    provider.go_on.clear()
    assert browser.get("/login", headers=NO_KEY).status_code == 303
    provider.go_on.set()
    assert browser.get("/login", headers=NO_KEY).status_code == 303
    assert provider.described == 3


def test_more_sign_ins_than_may_wait_are_told_to_come_again(browsers, provider, monkeypatch):
    monkeypatch.setattr("gramwatt.service.access.oidc._exchanges", BoundedSemaphore(1))
    browser = browsers()
    code, state = provider.authorize(browser.get("/login", headers=NO_KEY).headers["Location"])
    with oidc._exchanges:
        assert back(browser, code, state).status_code == 503
    assert back(browser, code, state).status_code == 200  # the state was not used up


def test_a_server_without_the_packages_of_sign_in_says_what_to_install(light, monkeypatch):
    oidc = OidcConfig(issuer="https://id.example", client_id="grams")
    monkeypatch.setitem(sys.modules, "authlib", None)
    with pytest.raises(ConfigError, match=re.escape(install_command("team"))):
        create_app(service=with_settings(light, oidc=oidc))


def test_a_secret_that_cannot_be_read_is_said_at_the_start(light, tmp_path):
    path = tmp_path / "none"
    oidc = OidcConfig(issuer="https://id.example", client_id="grams", secret_file=path)
    with pytest.raises(ConfigError, match="GRAMWATT_OIDC_CLIENT_SECRET_FILE=.*No such file"):
        create_app(service=with_settings(light, oidc=oidc))


def test_a_provider_is_asked_over_tls():
    for env in (
        {"GRAMWATT_OIDC_ISSUER": "http://id.example", "GRAMWATT_OIDC_CLIENT_ID": "c"},
        {"GRAMWATT_OIDC_ISSUER": "https://id.example"},
    ):
        with pytest.raises(ConfigError, match="GRAMWATT_OIDC"):
            from_environment(env)


@pytest.mark.parametrize(
    "claims",
    [
        {"email": "boss@example.org", "email_verified": False},
        {"email": "boss@example.org", "email_verified": ""},
        {"email": "boss@example.org", "email_verified": "true"},
        {"email": "server"},
        {"email": "", "preferred_username": "server"},
    ],
    ids=str,
)
def test_who_has_no_verified_email_is_named_by_subject_and_issuer(browsers, provider, claims):
    browser, provider.claims = browsers(), claims
    assert sign_in(browser, provider).status_code == 200
    assert browser.get("/v1/keys", headers=NO_KEY).status_code == 403
    admin, provider.claims = browsers(), {"groups": ["ops"]}
    assert sign_in(admin, provider).status_code == 200
    entries = admin.get("/v1/audit", headers=NO_KEY).json["entries"]
    refused = next(entry for entry in entries if entry["action"] == "refused")
    assert refused["actor"] == f"u1@127.0.0.1:{provider.server_port}"


@pytest.mark.parametrize("email", ["ada\n@example.org", "\x1b[1mada@example.org", "a" * 200 + "@b"])
def test_a_name_that_cannot_be_shown_is_refused(browsers, provider, email):
    browser, provider.claims = browsers(), {"email": email}
    assert sign_in(browser, provider).status_code == 401
