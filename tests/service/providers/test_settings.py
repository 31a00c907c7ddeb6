"""Who is asked, by the variables of the environment."""

import pytest

from gramwatt.service.config import ConfigError, from_environment
from gramwatt.service.providers.chain import is_live, providers_of


def settings(**env):
    return from_environment({f"GRAMWATT_{name}": value for name, value in env.items()}).intensity


def chain(zone="DE", **env):
    return [provider.name for provider in providers_of(settings(**env), zone)]


def test_without_a_setting_nobody_is_asked():
    assert chain() == []
    assert chain("GB") == []
    assert not is_live(settings(), "GB")


def test_every_provider_with_a_key_is_asked_and_those_without_one_where_they_are_named():
    keys = {"EIA_KEY": "a", "ENTSOE_KEY": "b", "ELECTRICITY_MAPS_KEY": "c"}
    assert chain(**keys) == ["electricity-maps", "entsoe"]
    assert chain("US-TEX-ERCO", **keys) == ["electricity-maps", "eia"]
    assert chain("GB", INTENSITY="uk") == ["uk"]
    assert chain("DK-DK1", INTENSITY="energinet,uk") == ["energinet"]


def test_a_zone_has_a_chain_of_its_own():
    env = {"INTENSITY": "entsoe electricity-maps; GB=uk; fr=off", "ENTSOE_KEY": "a"}
    env["ELECTRICITY_MAPS_KEY"] = "b"
    assert chain("DE", **env) == ["entsoe", "electricity-maps"]
    assert chain("GB", **env) == ["uk"]
    assert chain("FR", **env) == []
    assert chain("DE", INTENSITY="off", ENTSOE_KEY="a") == []


def test_only_what_scores_use_keeps_a_score_provisional():
    assert is_live(settings(INTENSITY="uk"), "GB")
    assert not is_live(settings(INTENSITY="energinet"), "DK-DK1")
    assert not is_live(settings(INTENSITY="uk"), "DE")


def test_a_key_may_stand_in_a_file_and_is_not_shown(tmp_path):
    file = tmp_path / "key"
    file.write_text("s3cret\n")
    found = settings(ENTSOE_KEY_FILE=str(file))
    assert found.accounts["entsoe"].key == "s3cret"
    assert "s3cret" not in repr(found)


def test_a_setting_that_cannot_be_used_says_why():
    for env, said in [
        ({"INTENSITY": "nobody"}, "known: electricity-maps, entsoe"),
        ({"INTENSITY": "entsoe"}, "entsoe, which needs GRAMWATT_ENTSOE_KEY"),
        ({"INTENSITY": "DE=eia"}, "eia, which needs GRAMWATT_EIA_KEY"),
        (
            {"UK_URL": "http://example.org"},
            "GRAMWATT_UK_URL='http://example.org' must be an https://",
        ),
        ({"UK_URL": "example"}, "must be an https://"),
        (
            {"ENTSOE_KEY_FILE": "/nowhere/key"},
            "GRAMWATT_ENTSOE_KEY_FILE='/nowhere/key' cannot be read: No such file",
        ),
    ]:
        with pytest.raises(ConfigError) as error:
            settings(**env)
        assert said in str(error.value)
