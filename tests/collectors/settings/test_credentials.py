"""Credentials in a server's address are for that server only: no output and no file has them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gramwatt.collectors.settings.config import plain_address

GRAMWATT = [sys.executable, "-m", "gramwatt"]
WORD = "s3cr/t?#word"
ADDRESSES = (f"http://key:{WORD}@127.0.0.1:9", f"ftp://key:{WORD}@127.0.0.1:9", f"key:{WORD}@host")


@pytest.fixture
def environ(tmp_path):
    names = {k: v for k, v in os.environ.items() if not k.startswith(("GRAMWATT_", "SLURM_"))}
    return names | {"GRAMWATT_HOME": str(tmp_path / "home"), "GRAMWATT_HOST_SOURCE": "model"}


def written(tmp_path: Path) -> bytes:
    """Every file that a command has left."""
    return b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


COMMANDS = (
    ["doctor", "--settings", "--json"],
    ["run", "-v", "--json-summary", "x.json", "--", "true"],
    ["sync"],
)


@pytest.mark.parametrize(
    ("address", "words"),
    [*((ADDRESSES[0], words) for words in COMMANDS), (ADDRESSES[1], ["doctor"])],
)
def test_no_command_and_no_file_repeats_them(environ, tmp_path, address, words):
    environ["GRAMWATT_SERVER"] = address
    done = subprocess.run(
        [*GRAMWATT, *words], env=environ, cwd=tmp_path, capture_output=True, timeout=60
    )
    printed = done.stdout + done.stderr
    assert b"word" not in printed + written(tmp_path), printed
    assert b"key:" not in printed


def test_an_argument_that_is_refused_does_not_repeat_them(environ, tmp_path):
    line = [*GRAMWATT, "run", "--server", ADDRESSES[2], "--", "true"]
    done = subprocess.run(line, env=environ, capture_output=True, timeout=60)
    assert b"word" not in done.stdout + done.stderr + written(tmp_path), done.stderr


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://key:word@host:80/x", "http://host:80/x"),
        ("https://host/x?key=word", "https://host/x"),
        ("http://host", "http://host"),
        ("http://key:wo@rd@host/a", "http://host/a"),
    ],
)
def test_the_rest_of_an_address_stays(address, shown):
    assert plain_address(address) == shown
