"""How often a caller may ask, and what a web page of another site cannot do."""

import pytest

from gramwatt.service.access.keys import create_key, revoke_key
from gramwatt.service.access.sessions import new_link
from gramwatt.service.api.access import BUCKETS_MOST, Buckets
from tests.journals import journal
from tests.service.keyed import NO_KEY, add, bearer, client_of


def test_a_bucket_holds_a_burst_and_fills_up_again():
    now = [0.0]
    buckets = Buckets(per_s=2.0, burst=3.0, clock=lambda: now[0])
    assert [buckets.take("a") for _ in range(3)] == [0.0, 0.0, 0.0]
    assert buckets.take("a") == 0.5  # a token each half second
    assert buckets.take("b") == 0.0
    now[0] = 0.25
    assert buckets.take("a") == 0.25
    now[0] = 0.5
    assert buckets.take("a") == 0.0
    now[0] = 1000.0
    assert [buckets.take("a") > 0 for _ in range(4)] == [False, False, False, True]


def test_buckets_that_are_kept_have_an_end():
    buckets = Buckets(per_s=1.0, burst=1.0, clock=lambda: 0.0)
    for number in range(BUCKETS_MOST + 5):
        buckets.take(str(number))
    assert len(buckets._levels) == BUCKETS_MOST


def test_a_key_that_asks_too_often_waits_and_the_others_do_not(light):
    client = client_of(light, requests_per_s=0.5)  # 5 at once
    keys = [create_key(light, name, "admin").key for name in ("one", "other")]
    one, other = (bearer(key) for key in keys)
    found = [client.get("/v1/jobs", headers=one) for _ in range(6)]
    assert [answer.status_code for answer in found] == [200] * 5 + [429]
    assert (found[5].json["code"], found[5].headers["Retry-After"]) == ("too-many-requests", "2")
    assert client.get("/v1/jobs", headers=other).status_code == 200
    revoke_key(light, "other")
    next_one = bearer(create_key(light, "other", "admin").key)
    found = [client.get("/v1/jobs", headers=next_one) for _ in range(5)]  # not the other's bucket
    assert [answer.status_code for answer in found] == [200] * 5
    # Records have a bucket of their own, ten times as large.
    for _ in range(20):
        sent = client.send("job-1", journal(), headers=one)
        assert sent.status_code == 200


def test_who_shows_no_key_is_limited_and_keeps_nobody_out(light):
    client = client_of(light, requests_per_s=0.5)
    key = bearer(create_key(light, "one", "read").key)
    found = [client.get("/v1/jobs", headers=NO_KEY).status_code for _ in range(7)]
    assert found == [401] * 5 + [429] * 2
    assert client.get("/v1/jobs", headers=key).status_code == 200
    assert client.get("/healthz", headers=NO_KEY).status_code == 200


@pytest.fixture
def browser(client, light):
    """A browser that is signed in."""
    add(light)
    client.get(f"/login?token={new_link(light, 'ada')}", headers=NO_KEY)
    return client


PAGE = {"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost"}


def test_another_site_s_page_changes_nothing_with_a_session(browser):
    for method in ["PATCH", "DELETE", "POST"]:
        for said in [
            {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"},
            {"Sec-Fetch-Site": "same-site", "Origin": "http://localhost:9999"},
            {"Sec-Fetch-Site": "none"},
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost:9999"},
            {},
        ]:
            address = "/v1/jobs/job-1" + ("/rescore" if method == "POST" else "")
            answer = browser.open(address, method=method, json={}, headers=NO_KEY | said)
            assert (answer.status_code, answer.json["code"]) == (403, "forbidden")


def test_a_page_of_this_site_may(browser):
    for said in (PAGE, {"Origin": "http://localhost"}):
        changed = browser.patch("/v1/jobs/job-1", json={"name": "n"}, headers=NO_KEY | said)
        assert (changed.status_code, changed.json["name"]) == (200, "n")
    assert browser.get("/v1/audit", headers=NO_KEY).json["entries"][0]["actor"] == "ada"


def test_another_site_s_page_reads_nothing_with_a_session(browser):
    framed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    assert browser.get("/v1/jobs", headers=NO_KEY | framed).status_code == 403
    followed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert browser.get("/", headers=NO_KEY | followed).status_code == 200


def test_a_session_ends(browser, clock):
    clock.turn(hours=11, minutes=59)
    assert browser.get("/", headers=NO_KEY).status_code == 200
    clock.turn(minutes=1)
    assert browser.get("/", headers=NO_KEY).status_code == 401


def test_who_is_not_signed_in_gets_a_page_that_says_how(client):
    answer = client.get("/", headers=NO_KEY | {"Accept": "text/html"})
    assert (answer.status_code, answer.mimetype) == (401, "text/html")
    assert "gramwatt serve --link" in answer.text
    assert "/static/" not in answer.text
