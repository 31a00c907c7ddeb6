"""R of a command that counts nothing itself: `gramwatt run --count` and `--count-from`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

RUN = [sys.executable, "-m", "gramwatt", "run", "--zone", "FR"]
METRICS = {"tokens": 98304, "eval": {"n": 7}, "a.b": {"c": 2.5}, "bad": "many", "none": 0}


@pytest.fixture
def environ(tmp_path):
    """A home of its own, no sensor, and no store that scores in the background."""
    names = {k: v for k, v in os.environ.items() if not k.startswith("GRAMWATT_")}
    home = {"GRAMWATT_HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    return names | home | {"GRAMWATT_HOST_SOURCE": "model"}


def ran(
    environ: dict[str, str], folder: Path, *options: str, code: int = 0, write: bool = True
) -> tuple[dict[str, float], list[str]]:
    """R by unit in the document of a command that writes metrics.json, and the lines about it."""
    summary = folder / "summary.json"
    text = f"open('metrics.json', 'w').write({json.dumps(METRICS)!r});" if write else ""
    script = f"import sys, time; time.sleep(0.5); {text} sys.exit({code})"
    command = [*RUN, "--json-summary", str(summary), *options, "--", sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, env=environ, cwd=folder, timeout=120)
    assert done.returncode == code, done.stderr
    document = json.loads(summary.read_text())
    counts = {row["unit"]: row["count"] for row in document["sci"]}
    return counts, done.stderr.decode().splitlines()[:-1]


def test_r_that_is_declared_or_read_from_a_file_is_that_of_the_score(environ, tmp_path):
    options = ("--count", "image=64", "--count-from", "token=metrics.json:tokens")
    options += (
        "--count-from",
        "page=metrics.json:eval.n",
        "--count-from",
        "step=metrics.json:a.b.c",
    )
    counts, said = ran(environ, tmp_path, *options)
    assert counts == {"image": 64, "token": 98304, "page": 7, "step": 2.5}
    assert said == []


UNREAD = {
    "token=missing.json:tokens": "No such file or directory; it is not counted",
    "image=metrics.json:toks": "it has no key 'toks'; it has tokens, eval",
    "page=metrics.json:bad": "not a number: 'many'",
    "step=metrics.json:none": "R is a number above zero, not 0",
    "epoch=metrics.json:tokens.x": "there is no object with the key 'x'",
}


def test_a_missing_file_or_key_is_one_notice_and_the_exit_code_stays(environ, tmp_path):
    options = [option for source in UNREAD for option in ("--count-from", source)]
    counts, said = ran(environ, tmp_path, *options, code=7)
    assert counts == {"job": 1}
    assert len(said) == len(UNREAD)
    for line, (source, words) in zip(said, UNREAD.items(), strict=True):
        assert f"--count-from {source}: " in line
        assert words in line


def test_a_file_that_the_command_did_not_write_counts_and_says_so(environ, tmp_path):
    (tmp_path / "metrics.json").write_text('{"tokens": 5}')
    source = ("--count-from", "token=metrics.json:tokens")
    counts, said = ran(environ, tmp_path, *source, write=False)
    assert counts == {"token": 5}
    assert "the command did not write" in said[0]


def test_a_command_that_failed_has_not_done_what_was_declared(environ, tmp_path):
    counts, said = ran(environ, tmp_path, "--count", "token=98304", code=3)
    assert counts == {"job": 1}
    assert "the command failed, so --count token=98304 is not counted" in said[0]


@pytest.mark.parametrize("options", [("--unit", "tokn"), ("--count", "Token=5")])
def test_a_misspelt_unit_gets_a_close_match_wherever_it_is_named(environ, tmp_path, options):
    unit = options[1].partition("=")[0]
    hint = f"{unit!r} counts as a unit of its own; close matches: token"
    _, said = ran(environ, tmp_path, *options)
    assert [hint in line for line in said] == [True]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--unit", "1x"), "--unit: not a unit name"),
        (("--count", "1x=3"), "--count '1x=3': '1x' is not a unit name"),
        (("--count", "token"), "--count 'token': write UNIT=N, such as token=98304"),
        (("--count", "token=0"), "--count token=0: R is a number above zero"),
        (("--count", "token=nan"), "--count token=nan: R is a number above zero"),
        (("--count", "token=1", "--count", "token=2"), "--count token is given more than once"),
        (("--count-from", "token=metrics.json"), "write UNIT=FILE:KEY"),
        (("--count-from", "1x=m.json:a"), "'1x' is not a unit name"),
        (
            ("--count-from", "http://h:1/metrics=vlm"),
            "'vlm' is not a preset; they are vllm, sglang",
        ),
        (("--count-metric", "n_total=image"), "name the server too"),
        (("--count-from", "vllm=http://h:1"), "write a server as http://HOST:PORT[=PRESET]"),
        (
            ("--count-from", "localhost:8000=vllm"),
            "'localhost:8000=vllm': write a server as http://",
        ),
    ],
)
def test_a_wrong_count_is_refused_once_before_the_command_starts(environ, tmp_path, options, words):
    command = [*RUN, *options, "--", "touch", "started"]
    done = subprocess.run(command, capture_output=True, env=environ, cwd=tmp_path, timeout=60)
    assert done.returncode == 2
    [line] = done.stderr.decode().splitlines()
    assert words in line
    assert not (tmp_path / "started").exists()


def test_a_unit_that_track_refuses_is_named_once(environ, tmp_path):
    script = "from gramwatt import track\nwith track(unit='1x'): pass"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, env=environ, cwd=tmp_path, timeout=60)
    said = [line for line in done.stderr.decode().splitlines() if "not a unit name" in line]
    assert len(said) == 1
    assert "argument: unit is ignored: not a unit name" in said[0]
