from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gramwatt.collectors.doctor.places import switch
from gramwatt.collectors.settings.catalogs import place_problems
from gramwatt.collectors.settings.config import PARSERS, describe, project_file, resolve


@pytest.fixture
def places(tmp_path):
    """An environment with its own XDG folders, a repository with a folder in it, the user file."""
    work = tmp_path / "repo" / "src"
    work.mkdir(parents=True)
    (tmp_path / "repo" / ".git").mkdir()
    user = tmp_path / "xdg" / "gramwatt" / "config.toml"
    user.parent.mkdir(parents=True)
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "xdg"), "XDG_DATA_HOME": str(tmp_path / "data")}
    return environ, work, user


def test_each_layer_wins_over_the_one_below_and_says_so(places):
    environ, work, user = places
    user.write_text('project = "user"\nname = "user"\nkind = "inference"\npue = 1.5\n')
    project = work.parent / "gramwatt.toml"
    project.write_text('project = "file"\nname = "file"\nkind = "evaluation"\n')
    environ |= {"GRAMWATT_PROJECT": "env", "GRAMWATT_NAME": "env"}
    config = resolve({"project": "arg", "zone": None}, environ, work)
    assert (config.project, config.name, config.kind, config.pue) == (
        "arg",
        "env",
        "evaluation",
        1.5,
    )
    assert config.origins["project"] == "argument"
    assert config.origins["name"] == "environment GRAMWATT_NAME"
    assert config.origins["kind"] == str(project)
    assert config.origins["pue"] == str(user)
    assert config.origins["zone"] == "default"
    assert config.notices == ()


def test_a_broken_value_leaves_a_notice_and_the_lower_layer_holds(places):
    environ, work, user = places
    user.write_text('pue = 1.2\ncolour = "green"\nzne = "DE"\n')
    environ["GRAMWATT_PUE"] = "0.4"
    config = resolve({"kind": "guessing"}, environ, work)
    assert config.pue == 1.2
    assert config.kind == "training"
    texts = [notice.message for notice in config.notices]
    assert texts == [
        f"{user}: unknown key 'colour' is ignored",
        f"{user}: unknown key 'zne' is ignored; close matches: zone",
        "environment: pue is ignored: PUE 0.4 is outside 1 to 5",
        "argument: kind is ignored: 'guessing' is none of training, fine-tuning, inference, "
        "evaluation, data-prep, other",
    ]
    assert {notice.code for notice in config.notices} == {"argument-ignored"}


def test_a_broken_file_is_ignored_with_its_path(places):
    environ, work, user = places
    user.write_text("project = [unclosed")
    config = resolve({}, environ, work)
    assert config.project == "default"
    assert str(user) in config.notices[0].message


def test_nothing_but_the_variable_switches_off(tmp_path, monkeypatch):
    (tmp_path / "gramwatt.toml").write_text("off = true\n")
    config = resolve(environ={"HOME": str(tmp_path), "GRAMWATT_OFF": ""}, cwd=tmp_path)
    assert "unknown key 'off' is ignored" in config.problems[0].text
    for value, state in (("1", "off"), ("", "ok")):
        monkeypatch.setenv("GRAMWATT_OFF", value)
        assert switch().state == state


def test_a_file_may_begin_as_editors_of_windows_begin_it(tmp_path):
    (tmp_path / "gramwatt.toml").write_bytes(b'\xef\xbb\xbfzone = "FR"\r\n')
    config = resolve(environ={"HOME": str(tmp_path)}, cwd=tmp_path)
    assert (config.zone, config.problems) == ("FR", ())


def test_the_project_file_is_searched_up_to_the_repository_and_not_beyond(tmp_path):
    repository = tmp_path / "repo"
    inner = repository / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "gramwatt.toml").touch()
    assert project_file(inner, Path("/nowhere")) is None
    (repository / ".git").mkdir()
    assert project_file(inner, Path("/nowhere")) is None
    (repository / "gramwatt.toml").touch()
    assert project_file(inner, Path("/nowhere")) == repository / "gramwatt.toml"


def test_secrets_are_hidden(places):
    environ, work, _ = places
    environ["GRAMWATT_API_KEY"] = "gw_topsecret"
    shown = describe(resolve({}, environ, work))
    assert shown["api_key"] == {"value": "(hidden)", "origin": "environment GRAMWATT_API_KEY"}
    assert "topsecret" not in str(shown)


def test_places_of_the_overlay_are_known_and_a_broken_overlay_is_named(places, tmp_path):
    environ, work, _ = places
    file = tmp_path / "own.toml"
    file.write_text('[zones.LAB]\nsource = "s"\ng_per_kwh = 10\nyear = 2026\n')
    environ["GRAMWATT_OVERLAY"] = str(file)
    assert place_problems(resolve({"zone": "LAB"}, environ, work)) == {}
    file.write_text("[zones.LAB]\n")
    config = resolve({"zone": "LAB"}, environ, work)
    problems = place_problems(config)
    assert list(problems) == ["overlay", "zone"]
    assert problems["overlay"].startswith(f"{file}: the overlay cannot be used: [zones.LAB]")
    assert describe(config)["overlay"] == {
        "value": str(file),
        "origin": "environment GRAMWATT_OVERLAY",
    }


def test_the_limit_of_tags_holds_for_all_places_together(tmp_path):
    many = {f"a{n}": "x" for n in range(64)}
    environ = {"GRAMWATT_TAGS": ",".join(f"{key}=x" for key in many), "HOME": str(tmp_path)}
    config = resolve({"tags": ["b=y"]}, environ, tmp_path)
    assert dict(config.tags) == many
    assert ["at most 64 tags" in notice.message for notice in config.notices] == [True]
    again = resolve({"tags": ["a0=y"]}, environ, tmp_path)
    assert dict(again.tags) == {**many, "a0": "y"}
    assert again.notices == ()


@pytest.mark.parametrize("key", ["GRAMWATT_HOME", "GRAMWATT_OVERLAY"])
def test_a_relative_path_in_a_folder_that_is_gone_stops_no_command(tmp_path, key):
    gone = tmp_path / "gone"
    gone.mkdir()
    names = {k: v for k, v in os.environ.items() if not k.startswith("GRAMWATT_")}
    environ = {**names, "XDG_DATA_HOME": str(tmp_path / "data"), key: "relative"}
    environ |= {"XDG_CONFIG_HOME": str(tmp_path), "GRAMWATT_HOST_SOURCE": "model"}
    script = 'cd "$1" && rmdir "$1" && shift && exec "$@"'
    command = [sys.executable, "-m", "gramwatt", "run", "--", "sh", "-c", "echo ran; exit 7"]
    done = subprocess.run(
        ["/bin/sh", "-c", script, "sh", str(gone), *command],
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (7, "ran\n")
    assert "Traceback" not in done.stderr
    assert "a relative path, and the current folder does not exist" in done.stderr


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**400, -(10**400)])
    | st.floats()
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(args=st.dictionaries(st.sampled_from([*PARSERS, "default_name", "odd"]), ANYTHING))
def test_no_value_of_any_key_raises(args):
    nothing = {"HOME": "/nowhere", "XDG_CONFIG_HOME": "/nowhere"}
    config = resolve(args, nothing, Path("/"))
    wrong = {notice.field for notice in config.notices}
    for key in PARSERS:
        value = args.get(key)
        told = key in wrong or config.origins[key] == "argument"
        assert told or value is None or key in ("zone", "region")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'GRAMWATT_ZONE = "DE"', "unknown key 'GRAMWATT_ZONE' is ignored; close matches: zone"),
        (b'[gramwatt]\nzone = "DE"', "unknown table 'gramwatt' is ignored; keys stand before any"),
        (b"home = 5", "home is ignored: not a path: '5'"),
        (b"tags = 5", "tags is ignored: tags are written key=value"),
        ('zone = "DE"'.encode("utf-16"), "cannot be read and is ignored: it is not UTF-8"),
    ],
)
def test_what_is_wrong_in_a_file_says_how_it_is_written(tmp_path, content, words):
    (tmp_path / "gramwatt.toml").write_bytes(content)
    config = resolve({}, {"XDG_CONFIG_HOME": str(tmp_path / "none")}, tmp_path)
    assert [words in problem.text for problem in config.problems] == [True], config.problems
    assert config.home == resolve({}, {}, tmp_path / "none").home
