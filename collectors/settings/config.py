"""Configuration: defaults < user file < project file < environment < arguments, each with origin.

The meter and the command resolve it; the training process never does. A broken file or value is
a notice and the next lower value holds, because measuring must not stop anybody's job.
docs/configuration.md lists every key.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import IntEnum
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_origin, get_type_hints
from urllib.parse import urlsplit

from msgspec import Struct, field
from msgspec.structs import replace

from gramwatt.collectors.settings.files import temporary_folder, why
from gramwatt.collectors.settings.keys import STORED_FILE, home_key_for, is_loopback, stored_key
from gramwatt.collectors.settings.orchestrators import run_name
from gramwatt.collectors.settings.platform import FALSE_WORDS
from gramwatt.sci.figures.notices import Notice
from gramwatt.sci.records.records import JOB_KINDS, UNIT_PATTERN

PREFIX = "GRAMWATT_"
TAGS_MAX = 64
"""Tags of one job, of all places together."""
PROJECT_FILE = "gramwatt.toml"
ENVIRONMENT = "environment"
SECRETS = frozenset({"api_key"})
TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
PUE_MAX = 5.0
"""Highest PUE a journal record may carry (gramwatt.sci.records.records refuses more)."""
OTHER_VARIABLES = frozenset(
    {"JOB_ID", "WITHIN", "REPORTER", "PROJECTS", "QUIET", "NVML", "SHARED_GPU", "HOST_SOURCE"}
    | {"MLFLOW", "LIGHTNING", "OFF"}
)
"""The client's variables that are not settings, without PREFIX."""
LIKE = 0.8
"""How alike a name is to the one that it is a slip of, as difflib has it: no variable of the
service is so like one of the client."""
METRICS_WORDS = frozenset({"names", "wandb"})


class Metrics(NamedTuple):
    """Where the figures of a running job are served: `text` as given, its host and port.

    Of the words beside them, `names`: project and name of the job too; `wandb`: have runs of W&B
    poll the address.
    """

    text: str
    host: str
    port: int
    words: frozenset[str]

    @property
    def url(self) -> str:
        """Return the address that is polled."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/metrics"


class Problem(NamedTuple):
    """Something wrong in the settings, which is ignored: where it is, the key, and why.

    Without a key `why` is the whole sentence.
    """

    origin: str
    key: str | None
    why: str

    @property
    def text(self) -> str:
        """The sentence for people."""
        where = f"{self.origin}: " if self.origin else ""
        return f"{where}{self.key} is ignored: {self.why}" if self.key else self.why


def plain_address(address: str) -> str:
    """Return an address without credentials and query, also one that is not valid."""
    before, at, place = address.rpartition("@")
    scheme = before.partition("://")[0] + "://" if at and "://" in before else ""
    return (scheme + place).partition("?")[0].partition("#")[0]


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > 512 or "\x00" in value:
        raise ValueError(f"not a text of 1 to 512 characters: {str(value)[:40]!r}")
    return _encodable(value.strip())


def key_of_server(value: Any) -> str:
    """Return the key in a text, which may have white space around it; raises ValueError, whose
    text does not repeat it.
    """
    text = value.strip() if isinstance(value, str) else ""
    if not 0 < len(text) <= 512 or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("not a key: one word, as `gramwatt admin key create` prints it")
    return text


def _encodable(text: str) -> str:
    # A name of bytes that are not UTF-8 reaches Python as halves of surrogate pairs, which no
    # journal may hold.
    return text.encode("utf-8", "replace").decode("utf-8")


def _kind(value: Any) -> str:
    if value not in JOB_KINDS:
        raise ValueError(f"{str(value)[:40]!r} is none of {', '.join(JOB_KINDS)}")
    return str(value)


def _units(value: Any) -> tuple[str, ...]:
    if not isinstance(value, str | list | tuple):
        raise ValueError(f"not a unit name or a list of them: {str(value)[:40]!r}")
    parts = value.split(",") if isinstance(value, str) else list(value)
    names = tuple(dict.fromkeys(str(part).strip() for part in parts))
    if not names:
        raise ValueError("no unit is named")
    bad = next((name for name in names if not UNIT_PATTERN.fullmatch(name)), None)
    if bad is not None:
        counted = "; how many are given by --count" if "=" in bad else ""
        allowed = "a letter, then letters, digits, space . _ -"
        raise ValueError(f"not a unit name ({allowed}): {bad!r}{counted}")
    return names


def _number(value: Any) -> float:
    try:
        return float("" if isinstance(value, bool) else value)
    except (TypeError, ValueError):
        raise ValueError(f"not a number: {str(value)[:40]!r}") from None


def _pue(value: Any) -> float:
    number = _number(value)
    if not 1.0 <= number <= PUE_MAX:
        raise ValueError(f"PUE {number} is outside 1 to {PUE_MAX:g}")
    return number


def _positive(value: Any) -> float:
    number = _number(value)
    if not 0 < number < float("inf"):
        raise ValueError(f"must be above zero: {value!r}")
    return number


def _url(value: Any) -> str:
    text = _text(value).rstrip("/")
    if not text.startswith(("http://", "https://")) or not text.partition("://")[2]:
        raise ValueError(f"not an http:// or https:// address: {plain_address(text)[:80]!r}")
    try:
        urlsplit(text)
    except ValueError:
        raise ValueError(f"not an address: {plain_address(text)[:80]!r}") from None
    if "\\" in text:  # clients differ in which host such an address has
        raise ValueError("an address has no backslash")
    return text


def _path(value: Any) -> Path:
    if not isinstance(value, str | Path) or not str(value) or "\x00" in str(value):
        raise ValueError(f"not a path: {str(value)[:40]!r}")
    path = Path(os.path.expanduser(str(value)))
    if path.is_absolute():
        return path
    try:
        return Path.cwd() / path
    except OSError:
        raise ValueError("a relative path, and the current folder does not exist") from None


def flag(value: Any) -> bool:
    """Return a switch's state of a boolean, or of 1/true/yes/on and 0/false/no/off."""
    word = str(value).strip().lower()
    if word not in TRUE_WORDS | FALSE_WORDS:
        raise ValueError(f"not true or false: {str(value)[:40]!r}")
    return word in TRUE_WORDS


def _tags(value: Any) -> dict[str, str]:
    if isinstance(value, str):
        value = [part for part in value.split(",") if part.strip()]
    if not isinstance(value, Mapping):
        parts = value if isinstance(value, list | tuple) else [value]
        pairs = [str(part).partition("=") for part in parts]
        if not all(key.strip() and equals for key, equals, _ in pairs):
            raise ValueError("tags are written key=value")
        value = {key.strip(): text.strip() for key, _, text in pairs}
    if len(value) > TAGS_MAX:
        raise ValueError(f"at most {TAGS_MAX} tags")
    texts = {_text(key): str(text).replace("\x00", "")[:512] for key, text in value.items()}
    return {key: _encodable(text) for key, text in texts.items()}


def parse_metrics(value: Any) -> Metrics:
    """Return the setting of a text such as `127.0.0.1:9464,names`; raises ValueError."""
    parts = [part.strip() for part in str(value).split(",")]
    addresses = [part for part in parts if part not in METRICS_WORDS]
    if len(addresses) != 1:
        words = ", ".join(sorted(METRICS_WORDS))
        raise ValueError(f"not HOST:PORT, and {words}: {str(value)[:40]!r}")
    host, _, port = addresses[0].rpartition(":")
    host = host.strip("[]").replace("localhost", "127.0.0.1")
    try:
        if not 0 < int(port) < 65536 or not ip_address(host).is_loopback:
            raise ValueError
    except ValueError:
        text = f"not a port of this machine alone, such as 127.0.0.1:9464: {addresses[0][:40]!r}"
        raise ValueError(text) from None
    return Metrics(str(value), host, int(port), frozenset(parts) & METRICS_WORDS)


class Config(Struct, frozen=True, kw_only=True):
    """Every setting of one job, each with the check of its value, and its origin.

    `problems` lists what was wrong and ignored.

    `server` and `api_key` are None where the key is not for that server (docs/access.md).
    `cloud_metadata` allows to ask the cloud for the region where no place is given,
    `units` are the declared functional units, `spool_limit_mb` the most the spool may hold [MB],
    `lifetime_years` the devices' expected life EL [years], None for the engine's default,
    `overlay` the file of the user's own catalog entries, None for overlay.toml in `home` if any,
    `metrics` where the figures of the running job are served or sent.
    """

    project: Annotated[str, _text] = "default"
    name: Annotated[str, _text] = ""
    kind: Annotated[str, _kind] = "training"
    units: Annotated[tuple[str, ...], _units] = ()
    region: Annotated[str | None, _text] = None
    zone: Annotated[str | None, _text] = None
    cloud_metadata: Annotated[bool, flag] = False
    pue: Annotated[float | None, _pue] = None
    model_id: Annotated[str | None, _text] = None
    server: Annotated[str | None, _url] = None
    api_key: Annotated[str | None, key_of_server] = None
    allow_http: Annotated[bool, flag] = False
    home: Annotated[Path, _path] = field(default_factory=lambda: default_home(os.environ))
    allow_host_names: Annotated[bool, flag] = False
    spool_limit_mb: Annotated[float, _positive] = 512.0
    lifetime_years: Annotated[float | None, _positive] = None
    overlay: Annotated[Path | None, _path] = None
    metrics: Annotated[Metrics | None, parse_metrics] = None
    tags: Annotated[Mapping[str, str], _tags] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    @property
    def notices(self) -> tuple[Notice, ...]:
        """The problems as notices of a job."""
        return tuple(Notice("argument-ignored", row.text, row.key) for row in self.problems)

    def key_for(self, server: str) -> str | None:
        """Return the key to send to a server: the configured one for the configured server only,
        else one stored for it, or the home's own where it is that server's; None without one.
        """
        own = self.api_key if server == self.server else None
        stored = stored_key(user_file(os.environ).parent, server)
        return own or stored or home_key_for(self.home, server)


PARSERS: dict[str, Callable[[Any], Any]] = {
    "unit" if name == "units" else name: hint.__metadata__[0]
    for name, hint in get_type_hints(Config, include_extras=True).items()
    if get_origin(hint) is Annotated
}
"""Every key, in the order `gramwatt doctor --settings` lists them, with the check of its value."""


class Trust(IntEnum):
    """Who may have written a place of settings: a cloned repository's file comes from anybody."""

    PROJECT_FILE = 0
    USER_FILE = 1
    CALLER = 2


class Layer(Struct, frozen=True):
    """One place of settings: its name for people, its values by key, and problems in reading it,
    each a sentence.
    """

    origin: str
    values: Mapping[str, Any]
    problems: tuple[str, ...] = ()
    trust: Trust = Trust.CALLER

    def origin_of(self, key: str) -> str:
        """Return where a value comes from, for people."""
        return f"{self.origin} {PREFIX}{key.upper()}" if self.origin == ENVIRONMENT else self.origin


def resolve(
    args: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Config:
    """Return the configuration that holds for these arguments, this environment and this folder.

    `args` are values the user gave in the call; None means not given, and `default_name` a name
    to use when no layer has one. Never raises for wrong content, which goes to Config.problems.
    """
    env = os.environ if environ is None else environ
    values = {key: value for key, value in (args or {}).items() if value is not None}
    default_name = values.pop("default_name", None)
    layers = [*_file_layers(env, cwd), _environment_layer(env), Layer("argument", values)]
    config = _merged(layers, Config(home=default_home(env)), user_file(env).parent)
    if isinstance(default_name, str) and not config.name:
        default_name = run_name(env) or default_name
        config = replace(config, name=_encodable(default_name)[:512])
    return config


def default_home(environ: Mapping[str, str]) -> Path:
    """Return the default folder of store and spool: gramwatt/ in the XDG data directory."""
    base = environ.get("XDG_DATA_HOME") or "~/.local/share"
    path = Path(os.path.expanduser(base))
    if not path.is_absolute():  # no home directory at all: an unnamed user in a container
        return temporary_folder()
    return path / "gramwatt"


def user_file(environ: Mapping[str, str]) -> Path:
    """Return the user's own file: gramwatt/config.toml in the XDG config directory."""
    base = environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(os.path.expanduser(base)) / "gramwatt" / "config.toml"


def project_file(cwd: Path, home: Path) -> Path | None:
    """Return the nearest gramwatt.toml from `cwd` to the repository's root or the home directory.

    Outside of both only `cwd` itself is looked at, so that another user's file in a shared folder,
    such as /tmp, has no effect.
    """
    above = [cwd, *cwd.parents]
    stops = (i for i, folder in enumerate(above) if folder == home or (folder / ".git").exists())
    last = next(stops, 0)
    paths = (folder / PROJECT_FILE for folder in above[: last + 1])
    return next((path for path in paths if path.is_file()), None)


def _file_layers(environ: Mapping[str, str], cwd: Path | None) -> list[Layer]:
    try:
        folder = (cwd or Path.cwd()).resolve()
        nearest = project_file(folder, Path(os.path.expanduser("~")))
    except OSError:  # the current folder is gone or not ours to read
        nearest = None
    layers = [_file_layer(user_file(environ), Trust.USER_FILE)]
    if nearest is not None:
        layers.append(_file_layer(nearest, Trust.PROJECT_FILE))
    return [layer for layer in layers if layer is not None]


def _file_layer(path: Path, trust: Trust) -> Layer | None:
    try:
        with path.open("rb") as stream:
            import tomllib  # most machines have no such file

            text = stream.read().decode("utf-8-sig")  # as editors of Windows write
            return Layer(str(path), tomllib.loads(text), trust=trust)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:  # TOML and UTF-8 errors: ValueError
        reason = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else why(error)
        return Layer(str(path), {}, (f"{path} cannot be read and is ignored: {reason}",))


def _environment_layer(environ: Mapping[str, str]) -> Layer:
    values = {
        key: environ[PREFIX + key.upper()] for key in PARSERS if environ.get(PREFIX + key.upper())
    }
    own = {key.upper() for key in PARSERS} | OTHER_VARIABLES
    return Layer(ENVIRONMENT, values, tuple(misspelt(environ, own)))


def misspelt(
    environ: Mapping[str, str], own: Collection[str], others: Collection[str] = ()
) -> Iterator[str]:
    """Yield a sentence for each variable with a name like one of a program's `own`, without PREFIX.

    Variables of `others` are left out. So is a name that is like no own one: it may be another
    program's, or Kubernetes made it for a service.
    """
    for name in environ:
        key = name.removeprefix(PREFIX)
        if key == name or key in own or key in others:
            continue
        from difflib import get_close_matches  # only a name that is not known pays

        swapped = [other for other in own if sorted(other) == sorted(key)]
        if like := swapped or get_close_matches(key, own, 1, LIKE):
            yield f"{name} is not known; do you mean {PREFIX}{like[0]}?"


def close_matches(name: str, names: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: known ones that are like it, if any."""
    from difflib import get_close_matches

    close = get_close_matches(name, names)
    return f"; close matches: {', '.join(close)}" if close else ""


class Choice(NamedTuple):
    """The value of a key, where it comes from for people, and who may have written it there."""

    value: Any
    origin: str
    trust: Trust


def _merged(layers: list[Layer], base: Config, user_folder: Path) -> Config:
    chosen: dict[str, Choice] = {}
    problems: list[Problem] = []
    servers: dict[str, Trust] = {}
    """The most trusted place that names each address."""
    for layer in layers:
        problems += [Problem(layer.origin, None, text) for text in layer.problems]
        accepted = _accepted(layer, chosen, problems)
        # A place given closer to the job replaces the whole place: a region on the command line
        # must not be scored with the zone of a file.
        for key, other in (("zone", "region"), ("region", "zone")):
            if key in accepted and other not in accepted and other in chosen:
                origin = f"default ({layer.origin_of(key)} gives the {key})"
                chosen[other] = Choice(None, origin, layer.trust)
        for key, value in accepted.items():
            chosen[key] = Choice(value, layer.origin_of(key), layer.trust)
        if address := accepted.get("server"):
            servers[address] = max(layer.trust, servers.get(address, layer.trust))
    if server := chosen.get("server"):
        trust = servers[server.value]
        is_others = "api_key" not in chosen or trust < chosen["api_key"].trust
        if is_others and (stored := stored_key(user_folder, server.value)):
            trust = Trust.USER_FILE
            chosen["api_key"] = Choice(stored, str(user_folder / STORED_FILE), trust)
        allows = "allow_http" in chosen and chosen["allow_http"].value
        if why_not := _server_problem(server.value, trust, chosen.get("api_key"), allows):
            problems.append(Problem(server.origin, "server", why_not))
            for key in ("server", "api_key"):
                chosen.pop(key, None)
    values = {"units" if key == "unit" else key: choice.value for key, choice in chosen.items()}
    origins = {key: chosen[key].origin if key in chosen else "default" for key in PARSERS}
    return replace(base, **values, origins=origins, problems=tuple(problems))


def _accepted(
    layer: Layer, chosen: Mapping[str, Choice], problems: list[Problem]
) -> dict[str, Any]:
    """Return the valid values of a layer, its tags added to the tags of the layers below. What is
    not valid is added to `problems`.
    """
    accepted: dict[str, Any] = {}
    for key, raw in layer.values.items():
        try:
            accepted[key] = PARSERS[key](raw)
        except KeyError:
            what = "table" if isinstance(raw, Mapping) else "key"
            hint = close_matches(key.lower().removeprefix(PREFIX.lower()), PARSERS)
            if what == "table":
                hint = "; keys stand before any [table]" + hint
            text = f"{layer.origin}: unknown {what} {key!r} is ignored{hint}"
            problems.append(Problem(layer.origin, None, text))
        except (TypeError, ValueError, OverflowError) as error:
            problems.append(Problem(layer.origin, key, str(error)))
    if "tags" in accepted:
        accepted["tags"] = {
            **(chosen["tags"].value if "tags" in chosen else {}),
            **accepted["tags"],
        }
        if len(accepted["tags"]) > TAGS_MAX:
            text = f"at most {TAGS_MAX} tags, counted over all places"
            problems.append(Problem(layer.origin, "tags", text))
            del accepted["tags"]
    if layer.trust is Trust.PROJECT_FILE and accepted.pop("allow_http", False):
        text = "a repository may not allow it"
        problems.append(Problem(layer.origin, "allow_http", text))
    return accepted


def for_own_process(config: Config) -> dict[str, str]:
    """Return the variables by which a process of ours sends to the same server, with its key: one
    of the environment may be for another server.
    """
    values = {"SERVER": config.server, "API_KEY": config.api_key if config.server else None}
    return {f"{PREFIX}{name}": value for name, value in values.items() if value}


def _server_problem(server: str, trust: Trust, key: Choice | None, allows_http: bool) -> str | None:
    """Return why neither key nor journals may go to the server that is set; None where they may.

    `trust` is the most trusted place that names the server. Without a key a repository may only
    name a server of this machine; gramwatt.collectors.settings.keys tells whether that server is
    the user's.
    """
    shown = plain_address(server)
    stays = "nothing is sent, and the journal stays in the local store"
    if server.startswith("http://") and not (is_loopback(server) or allows_http):
        return (
            f"{shown} is plain http, which everybody on the way can read: {stays}; "
            "use https://, or set GRAMWATT_ALLOW_HTTP=1"
        )
    if key is None:
        if trust > Trust.PROJECT_FILE or is_loopback(server):
            return None
        return f"no key is set for {shown}: {stays}; to send there, {_TRUST_IT.format(shown)}"
    if trust >= key.trust:
        return None
    return (
        f"the key of {key.origin} is not for {shown}: {stays}; "
        f"if you trust it, {_TRUST_IT.format(shown)}"
    )


_TRUST_IT = "set GRAMWATT_SERVER={0} beside GRAMWATT_API_KEY, or store a key: gramwatt login {0}"


def describe(config: Config) -> dict[str, dict[str, Any]]:
    """Return every key with its value and origin, JSON-ready, secrets hidden."""
    shown: dict[str, dict[str, Any]] = {}
    for key in PARSERS:
        value = getattr(config, "units" if key == "unit" else key)
        if key in SECRETS and value is not None:
            value = "(hidden)"
        elif key == "server" and value is not None:
            value = plain_address(value)
        elif isinstance(value, Metrics):
            value = value.text
        elif isinstance(value, Path):
            value = str(value)
        elif isinstance(value, Mapping):
            value = dict(value)
        elif isinstance(value, tuple):
            value = list(value)
        shown[key] = {"value": value, "origin": config.origins.get(key, "default")}
    return shown
