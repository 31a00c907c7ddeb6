"""What the files in deploy/ say, held against the product: settings, commands, routes, ports."""

import re
import shlex
import shutil
import subprocess

import kubernetes_validate
import pytest
import yaml
from flask.testing import FlaskClient
from helm_python.chart import Chart, lint
from helm_python.errors import HelmValuesError

from gramwatt.collectors.settings.config import PARSERS, PREFIX
from gramwatt.service.app import create_app
from gramwatt.service.config import SETTINGS, ServiceConfig, sqlite_url
from gramwatt.service.container import Service
from tests.packages import ROOT
from tests.service.cli.command import gramwatt

DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
FILES = [path for path in sorted(DEPLOY.rglob("*")) if path.is_file() and path.suffix != ".pyc"]
CHART = DEPLOY / "helm" / "gramwatt"


def rendered(**values):
    """The objects of the chart with these values, as a release named gramwatt."""
    with Chart.load(CHART) as chart:
        texts = chart.render(values=values, name="gramwatt", namespace="green")
    return [found for text in texts.values() for found in yaml.safe_load_all(text) if found]


OBJECTS = rendered()
ALL = rendered(serviceMonitor={"enabled": True})
PODS = {
    found["metadata"]["name"]: found["spec"]["template"]
    for found in OBJECTS
    if found["kind"] in ("Deployment", "Job")
}
SERVICES = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
OURS = {name: found for name, found in SERVICES.items() if name != "database"}
APP = {"app": "gramwatt"}
FILES_OF = {"${SETTINGS_FILES:-./files}:/etc/gramwatt:ro"}
"""Where files that settings name lie."""
STOP_S = 20
"""How long a server and a scheduler finish what is under way, as docs/deploy.md says."""


def instructions():
    """Each instruction of the Dockerfile with its text, on one line."""
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    return [line.split(None, 1) for line in text.splitlines() if line and line[0] != "#"]


def told(name):
    return [text for word, text in instructions() if word == name]


def containers(pod):
    return pod["spec"].get("initContainers", []) + pod["spec"]["containers"]


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)([sm])", text).groups()
    return int(number) * {"s": 1, "m": 60}[unit]


def test_every_setting_named_is_one_of_the_product():
    own = {setting.variable for setting in SETTINGS} | {PREFIX + key.upper() for key in PARSERS}
    own |= set(re.findall(r"\bGRAMWATT_[A-Z_]*[A-Z]\b", (DEPLOY / "gunicorn.conf.py").read_text()))
    named = {
        name
        for path in FILES
        for name in re.findall(r"\bGRAMWATT_[A-Z_]*[A-Z]\b", path.read_text())
    }
    assert {"GRAMWATT_DATABASE_URL", "GRAMWATT_WORKERS", "GRAMWATT_HOSTS"} < named
    assert named - own == set()


def commands():
    """Every command in deploy/, as its words."""
    (cmd,) = told("CMD")
    yield yaml.safe_load(cmd)
    for found in OURS.values():
        if "command" in found:
            yield found["command"]
    for pod in PODS.values():
        for container in containers(pod):
            if "command" in container:
                yield container["command"]
    for unit in UNITS:
        lines = re.findall(r"^ExecStart(?:Pre)?=-?(.*)$", unit.read_text(), re.MULTILINE)
        yield from map(shlex.split, lines)


def test_every_command_is_one_of_the_product_with_options_it_has():
    found = [[words[0].rpartition("/")[2], *words[1:]] for words in commands()]
    assert len(found) == 8
    (gunicorn,) = {tuple(words) for words in found if words[0] == "gunicorn"}
    assert gunicorn[1] == "--config"
    copied = [text.split() for text in told("COPY")]
    assert ["deploy/gunicorn.conf.py", gunicorn[2]] in copied
    others = {tuple(words) for words in found if words[0] != "gunicorn"}
    assert others == {
        ("gramwatt", "serve"),
        ("gramwatt", "serve", "--only-tasks"),
        ("gramwatt", "serve", "--only-tasks", "--alive-file", "/tmp/alive"),
        ("gramwatt", "admin", "db", "upgrade"),
    }
    for words in others:
        code, _, said = gramwatt(*words[1:], "--help")
        assert code == 0, said


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    url = sqlite_url(home / "store.db")
    return create_app(Service.open(ServiceConfig(database_url=url, home=home)))


def test_no_pod_of_an_older_release_writes_into_newer_tables():
    deployments = [found for found in OBJECTS if found["kind"] == "Deployment"]
    assert {found["spec"]["strategy"]["type"] for found in deployments} == {"Recreate"}


def test_probes_and_health_checks_ask_a_route_that_answers_without_a_key(app):
    paths = set()
    for container in [one for pod in PODS.values() for one in containers(pod)]:
        named = {port["name"] for port in container.get("ports", ())}
        for kind in ("livenessProbe", "readinessProbe", "startupProbe"):
            if kind in container and "exec" in container[kind]:
                command = shlex.join(container["command"])
                assert "--alive-file /tmp/alive" in command
                assert " /tmp/alive " in container[kind]["exec"]["command"][-1]
            elif kind in container:
                asked = container[kind]["httpGet"]
                assert asked["port"] in named
                paths.add(asked["path"])
                # Ready is who reaches the database and has its tables, alive who answers.
                assert asked["path"] == ("/readyz" if kind == "readinessProbe" else "/healthz")
    (check,) = (found["healthcheck"] for found in OURS.values() if "healthcheck" in found)
    port, path = re.search(r"http://127\.0\.0\.1:(\d+)(/\w+)", check["test"][-1]).groups()
    assert [port] == told("EXPOSE")
    paths.add(path)
    assert paths == {"/healthz", "/readyz"}
    plain = FlaskClient(app)  # shows no key
    for path in paths:
        # The kubelet asks by the pod's address.
        answer = plain.get(path, headers={"Host": "10.0.0.9:8642"})
        assert answer.status_code == (503 if path == "/readyz" else 200)  # the app has no tables


def test_ports_users_and_volumes_agree():
    (port,), (user,) = told("EXPOSE"), told("USER")
    (environment,) = told("ENV")
    assert f"GRAMWATT_BIND=0.0.0.0:{port}" in environment
    assert OURS["web"]["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert PODS["gramwatt-web"]["spec"]["containers"][0]["ports"] == [
        {"name": "http", "containerPort": int(port)}
    ]
    for pod in PODS.values():
        context = pod["spec"]["securityContext"]
        assert f"{context['runAsUser']}:{context['runAsGroup']}" == user
        volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
        for container in containers(pod):
            assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    mounted = [volume for one in SERVICES.values() for volume in one.get("volumes", ())]
    assert set(mounted) > FILES_OF
    assert {volume.partition(":")[0] for volume in set(mounted) - FILES_OF} == set(
        compose["volumes"]
    )


def test_a_cluster_s_own_user_registry_and_files_are_told_to_every_pod():
    objects = rendered(user=None, filesSecret="own", image={"pullSecrets": [{"name": "registry"}]})
    pods = [
        found["spec"]["template"]["spec"]
        for found in objects
        if "template" in found.get("spec", {})
    ]
    assert len(pods) == len(PODS)
    for pod in pods:
        assert pod["securityContext"].keys() == {"runAsNonRoot", "seccompProfile"}
        assert pod["imagePullSecrets"] == [{"name": "registry"}]
        assert {"name": "files", "secret": {"secretName": "own"}} in pod["volumes"]
        for container in containers(pod | {"spec": pod}):
            places = {mount["mountPath"] for mount in container["volumeMounts"]}
            assert places == {"/tmp", "/etc/gramwatt"}


def test_objects_find_each_other_by_their_labels():
    kinds = [found["kind"] for found in OBJECTS]
    assert sorted(kinds) == [
        "ConfigMap",
        "Deployment",
        "Deployment",
        "Job",
        "NetworkPolicy",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "Service",
    ]
    web = PODS["gramwatt-web"]["metadata"]["labels"]
    for found in OBJECTS:
        if found["kind"] == "Deployment":
            labels = found["spec"]["template"]["metadata"]["labels"]
            assert found["spec"]["selector"]["matchLabels"] == labels
        elif found["kind"] == "PodDisruptionBudget":
            assert found["spec"]["selector"]["matchLabels"] == web
        elif found["kind"] == "Service":
            assert found["spec"]["selector"] == web
            assert [one["targetPort"] for one in found["spec"]["ports"]] == ["http"]
        elif found["kind"] == "NetworkPolicy":
            chosen = found["spec"]["podSelector"]["matchLabels"]
            assert chosen == (web if found["metadata"]["name"].endswith("-web") else APP)
    (config,) = (found for found in OBJECTS if found["kind"] == "ConfigMap")
    assert all(isinstance(value, str) for value in config["data"].values())
    for name, pod in PODS.items():
        for container in containers(pod):
            named = [ref.popitem()[1]["name"] for ref in map(dict, container["envFrom"])]
            # The hook runs before there is a ConfigMap.
            hook = name.endswith("-migrations")
            assert named == ["gramwatt", config["metadata"]["name"]][: 1 if hook else 2]


def test_containers_may_do_only_what_they_need_and_hold_no_secret():
    for pod in PODS.values():
        assert pod["spec"]["automountServiceAccountToken"] is False
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        for container in containers(pod):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert "memory" in container["resources"]["limits"]
    for found in OURS.values():
        assert (found["read_only"], found["cap_drop"]) == (True, ["ALL"])
        assert found["security_opt"] == ["no-new-privileges:true"]
    for found in SERVICES.values():
        for name, value in found.get("environment", {}).items():
            if "PASSWORD" in name:
                assert value.startswith("${POSTGRES_PASSWORD"), name
            assert not re.search(r"://\w+:", str(value)), name  # breaks where it has / or @


def test_nothing_is_killed_before_it_has_stopped():
    configured = (DEPLOY / "gunicorn.conf.py").read_text()
    assert f"\ngraceful_timeout = {STOP_S}\n" in configured
    for pod in PODS.values():
        before = 0
        for container in containers(pod):
            if "lifecycle" in container:
                word, before = container["lifecycle"]["preStop"]["exec"]["command"]
                assert word == "sleep"
        if pod["spec"].get("restartPolicy") != "Never":
            assert pod["spec"]["terminationGracePeriodSeconds"] > STOP_S + int(before)
    for found in OURS.values():
        assert seconds(found["stop_grace_period"]) > STOP_S
    for unit in UNITS:
        (stop,) = re.findall(r"^TimeoutStopSec=(\d+)$", unit.read_text(), re.MULTILINE)
        assert int(stop) > STOP_S


def test_the_image_is_made_of_locked_packages_and_whole():
    copied = [text.split() for text in told("COPY") if not text.startswith("--from")]
    for *sources, _ in copied:
        for source in sources:
            assert (ROOT / source).exists(), source
    whole = {source for *sources, _ in copied for source in sources}
    links = [path for path in (ROOT / "src" / "gramwatt").iterdir() if path.is_symlink()]
    linked = {path.resolve().relative_to(ROOT).parts[0] for path in links}
    assert linked | {"src", "pyproject.toml", "requirements/team.txt"} <= whole
    installs = [text for text in told("RUN") if "pip install" in text]
    assert ["--require-hashes" in text or "--no-deps" in text for text in installs] == [True, True]


def test_the_chart_has_no_fault_and_its_objects_fit_kubernetes():
    report = lint(CHART, strict=True)
    assert report["errors"] == []
    assert [one["error"] for one in report["messages"]] == ["icon is recommended"]
    own = [found for found in ALL if "monitoring.coreos.com" not in found["apiVersion"]]
    assert len(ALL) - len(own) == 1
    for found in own:
        for version in ("1.28", "1.37"):
            kubernetes_validate.validate(found, version, strict=True)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"networkPolicy": {"enable": True}}, "enable"),
        ({"networkPolicy": {"enabled": "yes"}}, "boolean"),
        ({"settings": {"GRAMWATT_WORKERS": 2}}, "string"),
        ({"server": {"replicas": 0}}, "minimum"),
        ({"servers": {}}, "servers"),
    ],
)
def test_a_wrong_value_of_the_chart_is_refused_and_named(values, said):
    with pytest.raises(HelmValuesError, match=said):
        rendered(**values)


def test_tables_are_upgraded_before_anything_of_a_release_starts():
    (job,) = (found for found in OBJECTS if found["kind"] == "Job")
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    (container,) = containers(job["spec"]["template"])
    assert container["command"] == ["gramwatt", "admin", "db", "upgrade"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_systemd_finds_no_fault_in_the_units_but_that_nothing_is_installed():
    units = sorted(map(str, (DEPLOY / "systemd").glob("*.service")))
    assert len(units) == 3
    command = ["systemd-analyze", "verify", *units]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60).stderr
    faults = [line for line in said.splitlines() if "is not executable" not in line]
    assert [line for line in faults if "gramwatt" in line] == []
