from __future__ import annotations

import re

import pytest

from gramwatt.collectors.cli.counts import RunCounts
from gramwatt.collectors.cli.exit_codes import UsageError
from gramwatt.collectors.serving.presets import from_start, servers


@pytest.mark.parametrize(
    ("text", "url", "preset"),
    [
        ("http://127.0.0.1:8000/metrics", "http://127.0.0.1:8000/metrics", None),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/metrics", None),
        ("http://127.0.0.1:8000/=vllm", "http://127.0.0.1:8000/metrics", "vllm"),
        ("https://[::1]:8/m=llamacpp", "https://[::1]:8/m", "llamacpp"),
        ("http://h/metrics?model=a=tgi", "http://h/metrics?model=a", "tgi"),
        ("http://h/metrics?model=a", "http://h/metrics?model=a", None),
    ],
)
def test_an_address_is_split_at_its_last_equals_sign(text, url, preset):
    (server,) = servers([text], [])
    assert (server.url, server.preset) == (url, preset)


@pytest.mark.parametrize(
    ("addresses", "metrics", "words"),
    [
        (["http://h/metrics=vlm"], [], "they are vllm, sglang, llamacpp, tgi, triton"),
        (["http://"], [], "write http://HOST:PORT/metrics"),
        (["http://h:x/metrics"], [], "write http://HOST:PORT/metrics"),
        (["http://h/m", "http://h/m=vllm"], [], "more than once"),
        ([], ["n=image"], "name the server too"),
        (["http://h/m"], ["n"], "write NAME=UNIT"),
        (["http://h/m"], ["a=image", "b=image"], "a unit is given more than once"),
        (["http://h/m"], ["n{=image"], "write NAME=UNIT"),
        (["http://h/m"], ["n=1"], "'1' is not a unit name"),
        (
            ["http://h=vllm"],
            ["vllm:prompt_tokens_total=token"],
            "the preset vllm counts that already",
        ),
    ],
)
def test_what_has_no_meaning_says_what_to_write(addresses, metrics, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        servers(addresses, metrics)
    assert from_start({"addresses": addresses, "metrics": metrics}) == []


def test_a_counter_of_ones_own_takes_the_place_of_the_presets_for_one_unit_and_phase():
    own = ["vllm:request_success_total=request", "vllm:generation_tokens_total=answer", "b=token"]
    assert servers(["http://h=vllm"], own)[0].preset == "vllm"


@pytest.mark.parametrize("end", ["=vlm", ":x", ":0=vllm"])
@pytest.mark.parametrize("password", ["se=cret", "secret"])
def test_a_password_is_in_no_error(end, password):
    with pytest.raises(ValueError, match="'http://h") as error:
        servers([f"http://me:{password}@h{end}"], [])
    assert "cret" not in str(error.value)
    with pytest.raises(UsageError, match="write a server as http://") as refused:
        RunCounts(None, ["me:se=cret@h:1=vllm"])
    assert "cret" not in str(refused.value)
