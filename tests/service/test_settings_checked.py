"""Settings that would not do what is written are refused at the start, in one sentence."""

import logging

import pytest

from gramwatt.collectors.settings.config import PARSERS, resolve
from gramwatt.service.config import SETTINGS, ConfigError, from_environment
from gramwatt.service.logs import GUNICORN, set_up

SIGN_IN = {"GRAMWATT_OIDC_ISSUER": "https://id.example", "GRAMWATT_OIDC_CLIENT_ID": "c"}


def read(tmp_path, **more):
    names = {f"GRAMWATT_{name}": text for name, text in more.items()}
    return from_environment({"GRAMWATT_HOME": str(tmp_path), **SIGN_IN, **names})


def test_a_list_of_names_is_written_in_one_way(tmp_path):
    text = "Carbon%20Admins,100%25 other"
    names = {"Carbon Admins", "100%", "other"}
    found = read(tmp_path, OIDC_ADMIN_GROUPS=text, OIDC_READ_GROUPS=text, REPORT_PROJECTS=text)
    assert set(found.oidc.admin_groups) == set(found.oidc.read_groups) == names
    assert set(found.reports.projects) == names
    found = read(tmp_path, OIDC_PROJECTS="Carbon%20Admins=a%2520b", RETENTION_DAYS="p%2520=9")
    assert (found.oidc.projects[0].group, found.oidc.projects[0].projects) == (
        "Carbon Admins",
        {"a%20b"},
    )
    assert set(found.keep_intervals) == {"p%20"}


@pytest.mark.parametrize("name", ["OIDC_ADMIN_GROUPS", "OIDC_PROJECTS", "HOSTS", "PUBLIC_BADGES"])
def test_a_percent_sign_without_a_code_and_quotes_are_refused(tmp_path, name):
    with pytest.raises(ConfigError, match=f"GRAMWATT_{name} has a % without a code"):
        read(tmp_path, **{name: "100%=x"})
    with pytest.raises(ConfigError, match=f'GRAMWATT_{name} has a "; write a space .* as %20'):
        read(tmp_path, **{name: '"Carbon Admins"=x'})


@pytest.mark.parametrize(
    "text",
    [
        "mail.example.org",
        "127.0.0.1:18025",
        "smtp://ops:S3cr/et@mail.example.org:587",
        "smtp://ops:25/S3cret@mail.example.org",
        "smtp://ops:S3cr#et@mail.example.org",
        "smtp://ops:25?S3cret@mail.example.org",
        "smtp://",
        "https://mail.example.org",
    ],
)
def test_an_address_that_is_not_a_mail_server_s_is_refused_without_its_password(tmp_path, text):
    with pytest.raises(ConfigError, match="GRAMWATT_SMTP_URL is not the address") as refused:
        read(tmp_path, SMTP_URL=text)
    assert "et" not in str(refused.value).replace("such as", "").split("smtp")[0].split()
    assert "S3cr" not in str(refused.value)
    assert read(tmp_path, SMTP_URL="smtps://ops:S3cr%2Fet@mail.example.org").alerts.smtp_url


@pytest.mark.parametrize("name", ["REPORT_S3_URL", "OIDC_ISSUER", "EIA_URL"])
def test_a_refused_address_is_shown_without_its_password(tmp_path, name):
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, **{name: "ftp://ops:S3cret@host.example/x"})
    assert "S3cret" not in str(refused.value)


def test_the_address_of_a_bucket_holds_no_password_and_no_setting_is_shown_with_one(tmp_path):
    with pytest.raises(ConfigError, match="holds no user or password") as refused:
        read(tmp_path, REPORT_S3_URL="https://ops:S3cret@minio.example/bucket")
    assert "S3cret" not in str(refused.value)
    config = read(
        tmp_path, EIA_URL="https://a:S3cret@e/", OIDC_ISSUER="https://a:S3cret@id.example"
    )
    assert "S3cret" not in repr(config)


def test_each_program_names_what_is_misspelt_of_its_own_variables(tmp_path, monkeypatch, capsys):
    own = {setting.key for setting in SETTINGS} | GUNICORN
    unlike = own - {key.upper() for key in PARSERS}
    names = {f"GRAMWATT_{key}": "x" for key in unlike | {"PORT_8642_TCP", "RETENTION_DAY"}}
    assert resolve(environ=names | {"HOME": str(tmp_path)}, cwd=tmp_path).problems == ()
    slip = resolve(environ={"HOME": str(tmp_path), "GRAMWATT_ZOEN": "FR"}, cwd=tmp_path).problems
    assert [row.why for row in slip] == ["GRAMWATT_ZOEN is not known; do you mean GRAMWATT_ZONE?"]
    monkeypatch.setenv("GRAMWATT_RETENTION_DAY", "9")
    monkeypatch.setenv("GRAMWATT_PROJCT", "vision")
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    set_up("text")
    assert [line.partition(" WARNING ")[2] for line in capsys.readouterr().err.splitlines()] == [
        "GRAMWATT_PROJCT is not known; do you mean GRAMWATT_PROJECT?",
        "GRAMWATT_RETENTION_DAY is not known; do you mean GRAMWATT_RETENTION_DAYS?",
    ]
