"""`track`: measure a block or a function, as decorator or context manager.

    @track                                  with track(unit="image") as job:
    def train(): ...                            job.count(64)

Standard library only: configuration, records and meters live in the meter process.
"""

from __future__ import annotations

import functools
import math
import os
import sys

from gramwatt.collectors.settings.platform import is_set, refused, switched_off
from gramwatt.collectors.track.decorators import decorate
from gramwatt.collectors.track.launch import ask_sync
from gramwatt.collectors.track.messages import print_message
from gramwatt.collectors.track.session import (
    UNIT_NAME,
    OpenWindow,
    Session,
    close_session,
    joined_session,
    open_session,
    running_session,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Any, TypeVar, overload

    from gramwatt.collectors.track.session import Place

    F = TypeVar("F", bound=Callable[..., Any])

RESULT_TIMEOUT_S = 10.0
SHOWN_CHARACTERS = 40
"""Characters of a wrong value in a message."""
_FIGURES = ("energy_kwh", "operational_g", "embodied_g", "total_g")
_SAFE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.")
"""Characters of a name that trackers of experiments take."""
_CALLBACKS = "tracked_run.py"
"""The file in which the integrations begin their jobs."""
_is_unit = functools.lru_cache(UNIT_NAME.fullmatch)
_OPTIONS = frozenset({"project", "name", "unit", "region", "zone", "kind"})


class Job:
    """A job as `with track() as job` returns it: counts, windows, id, result. Nothing raises."""

    def __init__(self, session: Session | None, unit: str | None) -> None:
        self._session = session
        self._unit = unit
        self._result: dict[str, Any] | None = None

    @property
    def id(self) -> str | None:
        """The job's id; None when measuring is off."""
        return self._session.id if self._session else None

    def end_waits_for_line(self, limit_s: float) -> None:
        """Have the end of the job wait for the line about it, at most `limit_s` [s]."""
        if self._session is not None:
            self._session.client.patience_s = limit_s

    @property
    def result(self) -> dict[str, Any] | None:
        """The job document (docs/python-api.md), scored now; about a second, once.

        None while the job runs, when measuring is off, or when none can be had in RESULT_TIMEOUT_S.
        """
        if self._session is None:
            return None
        if self._result is None or self._result.get("provisional"):
            self._session.client.poll()
            home = self._session.client.home
            settings = {"GRAMWATT_HOME": home} if home else None
            answer = ask_sync("document", self._session.id, RESULT_TIMEOUT_S, settings)
            self._result = Document(answer["document"]) if answer.get("document") else None
            if self._result is None and (problem := answer.get("problem")):
                print_message(f"{self._session.id} has no score yet: {problem['text']}")
        return self._result

    def metrics(self, *, so_far: bool = False) -> dict[str, float]:
        """Return the figures of `result` by name, flat, for mlflow.log_metrics and wandb.log.

        Names end in their unit, with `_low` and `_high` for the range (docs/python-api.md). What is
        not known is left out, so that it is empty while the job runs or nothing was measured. With
        `so_far` those of a running job up to now, about 2 s; of one that has ended the same.
        """
        try:
            return flat_figures((self._document_so_far() if so_far else self.result) or {})
        except Exception as error:  # a server's document of another form
            print_message(f"the metrics of {self.id} could not be made ({error!r})")
            return {}

    @property
    def url(self) -> str | None:
        """The address of the ended job's page on a server; None without a server."""
        see = self._session.client.see if self._session else ""
        return see if see.startswith("http") else None

    def log_to_mlflow(self, run_id: str | None = None) -> None:
        """Log the figures of the ended job to a run of MLflow (docs/integrations.md)."""
        from gramwatt.collectors.track.trackers import log_to_mlflow

        if self.id is not None:
            log_to_mlflow(self.id, self.url, self.metrics(), run_id)

    def log_to_wandb(self, run: Any = None) -> None:
        """Write the figures of the ended job into a run of W&B (docs/integrations.md)."""
        from gramwatt.collectors.track.trackers import log_to_wandb

        if self.id is not None:
            log_to_wandb(self.id, self.url, self.metrics(), run)

    def _document_so_far(self) -> dict[str, Any] | None:
        if self._session is None or self._result is not None:
            return self._result
        self._session.client.poll()  # what was counted is sent
        answer = ask_sync("so-far", self._session.id, RESULT_TIMEOUT_S)
        document: dict[str, Any] | None = answer.get("document")
        if document is None and (problem := answer.get("problem")):
            print_message(f"{self._session.id} has no figures yet: {problem['text']}")
        return document

    def __repr__(self) -> str:
        if self._session is None:
            return "<gramwatt job: not measured>"
        if self._session.runs:
            return f"<gramwatt job {self.id}: running>"
        if self._result is None:
            return f"<gramwatt job {self.id}: ended; .result has its figures>"
        from gramwatt.collectors.track.document_text import document_line

        return f"<gramwatt job {self.id}: {document_line(self._result)}>"

    def count(self, amount: float | None = None, /, **units: float) -> None:
        """Add functional units: `count(64)` of the declared one, or `count(token=4096)`."""
        if self._session is None:
            return
        try:
            if amount is not None:
                self._session.count(_amount(amount), self._unit)
            for unit, number in units.items():
                if not _is_unit(unit):
                    raise ValueError(f"not a unit name: {_short(unit)}")
                self._session.count(_amount(number), unit)
        except Exception as error:
            texts = [] if amount is None else [_short(amount)]
            texts += [f"{_short(unit, str)}={_short(number)}" for unit, number in units.items()]
            text = f"count({', '.join(texts[:4])}) is ignored: {_short(error, str)}"
            self._session.report_ignored(text)

    def window(self, name: str) -> Window:
        """Return a block whose energy and counts are reported separately; windows nest ("a/b")."""
        text = str(name).replace("\x00", "")  # nor halves of surrogate pairs, in any journal
        return Window(self._session, text.encode("utf-8", "replace").decode("utf-8"))

    def send_notice(self, code: str, text: str) -> None:
        """Leave a notice in the job's report; `code` is one of docs/reference/notices.md."""
        if self._session is not None:
            self._session.client.send_notice(code, text)


def _amount(amount: float) -> float:
    number = float(amount)
    if not 0 <= number < math.inf:
        raise ValueError(f"an amount is a number from 0 up, not {_short(amount)}")
    return number


def running_job() -> Job | None:
    """Return the job that this process counts into: its own or that around it; None without."""
    session = running_session()
    return Job(session, None) if session is not None else None


def flat_figures(document: Mapping[str, Any]) -> dict[str, float]:
    """Return a job document's figures by name, each with `_low` and `_high`, where they are known.

    `co2e_g_per_UNIT` and `count_UNIT` for each functional unit; energy and carbon of each window,
    of several with one name the last; `conforming` is 1 for a score that is an SCI, with or without
    listed deviations, else 0.
    """
    figures: dict[str, float] = {}
    for name in _FIGURES:
        _add_figure(figures, name, document.get(name))
    for item in document.get("sci") or ():
        unit = "".join(char if char in _SAFE else "_" for char in str(item["unit"]))
        figures[f"gramwatt/count_{unit}"] = float(item["count"])
        _add_figure(figures, f"co2e_g_per_{unit}", item.get("g_per_unit"))
    for window in document.get("windows") or ():
        name = "".join(char if char in _SAFE or char == "/" else "_" for char in window["name"])
        for figure in ("energy_kwh", "total_g"):
            _add_figure(figures, f"window/{name}/{figure}", window.get(figure))
    if document.get("duration_s") is not None:
        figures["gramwatt/duration_s"] = float(document["duration_s"])
    if document.get("conformance"):
        figures["gramwatt/conforming"] = float(document["conformance"] != "not-sci")
    return figures


def _add_figure(figures: dict[str, float], name: str, figure: Mapping[str, float] | None) -> None:
    if figure is not None:
        for end, suffix in (("value", ""), ("low", "_low"), ("high", "_high")):
            figures[f"gramwatt/{name}{suffix}"] = float(figure[end])


def _short(value: object, text_of: Callable[[Any], str] = repr) -> str:
    """Return a value as text for a message, however long or unprintable it is."""
    try:
        text = text_of(value)
    except Exception:  # an integer of more digits than Python prints, or a __repr__ that fails
        text = f"a {type(value).__name__}"
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."


class Document(dict):  # type: ignore[type-arg]  # a plain dict to its users
    """A job document, which a notebook shows as a table with a chart."""

    def _repr_html_(self) -> str:
        from gramwatt.collectors.track.document_text import document_html

        return document_html(self)

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        from gramwatt.collectors.track.document_text import document_text

        printer.text(document_text(self))


class Window:
    """A named part of a job, such as an epoch; it may be entered again."""

    def __init__(self, session: Session | None, name: str) -> None:
        self._session = session
        self._name = name
        self._entries: list[OpenWindow] = []

    def __enter__(self) -> Window:
        if self._session is not None:
            self._entries.append(self._session.enter_window(self._name))
        return self

    def __exit__(self, *_error: object) -> None:
        if self._session is not None and self._entries:
            # Several threads may be in this window; and a block may end where it did not begin.
            here = [window for window in self._session.windows() if window in self._entries]
            window = (here or self._entries)[-1]
            self._entries.remove(window)
            self._session.leave_window(window)


class Tracker:
    """What `track(...)` returns: a decorator and context manager that may be entered again."""

    def __init__(
        self,
        options: Mapping[str, Any],
        strict: bool,
        default_name: str,
        place: Place | None,
    ) -> None:
        """`place` is where in the code the job begins; None makes each entry a job of its own."""
        self._default_name = default_name
        self._place = place
        self._options = options
        self._strict = strict
        self._unit: str | None = None
        self._entered: list[tuple[Session | None, bool]] = []
        self._ignored: list[str] = []
        self._is_plain = not (options or strict or place is None)
        if options or strict:
            self._check()

    def _check(self) -> None:
        """Report what is wrong with the options; raises TypeError or ValueError if `strict`."""
        unit = self._options.get("unit")
        self._unit = unit if isinstance(unit, str) and UNIT_NAME.fullmatch(unit) else None
        unknown = sorted(self._options.keys() - _OPTIONS)
        if self._strict:
            _check(self._options, unknown)
        self._ignored = [_unknown(key, ", and it is ignored") for key in unknown]
        for text in self._ignored:
            print_message(f"{text} [argument-ignored]")

    def __call__(self, function: F) -> F:
        """Decorate `function`: each of its runs is a job, or part of the job that is running."""
        if isinstance(function, type) or not _runs(function):  # a class has to stay one
            if self._strict:
                raise TypeError(f"track decorates functions, not {_short(function)}")
            text = f"track() cannot decorate {_short(function)}; it is ignored"
            print_message(f"{text} [argument-ignored]")
            return function
        name = getattr(function, "__qualname__", None) or type(function).__name__
        scope = functools.partial(Tracker, self._options, self._strict, name, self._place)
        return decorate(function, scope)  # type: ignore[return-value]  # the same signature

    def __enter__(self) -> Job:
        session = joined_session() if self._is_plain else None
        if session is None:
            return self._enter(by_start=False)
        self._entered.append((None, False))  # as below, in a fifth of the time: nothing to leave
        return Job(session, None)

    def _enter(self, *, by_start: bool) -> Job:
        options = {key: value for key, value in self._options.items() if key in _OPTIONS}
        options["default_name"] = self._default_name or _script_name(self._place)
        session, owner = open_session(options, self._strict, by_start=by_start, place=self._place)
        if session is not None:
            for text in self._ignored if owner else ():
                session.client.send_notice("argument-ignored", text)
        # A nested job counts its own unit by name: the meter knows the outer one's as declared.
        job = Job(session, None if owner else self._unit)
        self._entered.append((session, owner))
        if self._strict and session is not None and not session.client.wait_ready():
            self.__exit__(None, None, None)
            raise RuntimeError("the meter is not ready; `gramwatt doctor` says what is missing")
        return job

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if self._entered:
            session, owner = self._entered.pop()
            close_session(session, owner, error)
            if owner and "mlflow" in sys.modules and is_set("GRAMWATT_MLFLOW"):
                Job(session, None).log_to_mlflow()

    async def __aenter__(self) -> Job:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, trace)

    def start(self) -> Job:
        """Begin without a block, as notebooks do; `stop()` ends it, or else the interpreter.

        A job that an earlier `start()` began is ended, so that a cell may be run again.
        """
        return self._enter(by_start=True)

    def stop(self) -> None:
        """End what `start()` began, if anything."""
        self.__exit__(None, None, None)


# More than seven parameters: users give each by name, and their editors list and check them.
if TYPE_CHECKING:

    @overload
    def track(function: F, /) -> F: ...
    @overload
    def track(
        *,
        project: str | None = None,
        name: str | None = None,
        unit: str | None = None,
        region: str | None = None,
        zone: str | None = None,
        kind: str | None = None,
        job: str | None = None,
        strict: bool = False,
    ) -> Tracker: ...
    def track(*_args: Any, **_options: Any) -> Any:
        """Measure energy and carbon; the definition below is the real one."""

else:

    def track(
        function=None,
        /,
        *,
        project=None,
        name=None,
        unit=None,
        region=None,
        zone=None,
        kind=None,
        job=None,
        strict=False,
        **more,
    ):
        """Measure energy and carbon of a function or a block, as decorator or context manager.

        `unit` is the functional unit that `job.count` counts, `region` a cloud region such as
        "aws:eu-west-1", `zone` a grid zone such as "FR", `kind` the job's kind ("training", ...).
        Wrong arguments leave a notice and change nothing else; with `strict=True` they raise
        TypeError or ValueError here, and so does a system that cannot measure, as RuntimeError;
        a meter that is not to be had raises RuntimeError at the start.

        `job="new"` makes each entry a job of its own, inside a running job and in each rank too.
        """
        options = {
            "project": project,
            "name": name,
            "unit": unit,
            "region": region,
            "zone": zone,
            "kind": kind,
            **more,
        }
        options = {key: value for key, value in options.items() if value is not None}
        tracker = Tracker(options, strict, "", _place(job, strict))
        if function is None:
            return tracker
        if strict or _runs(function):
            return tracker(function)
        text = f"track({_short(function)}): arguments are given by name, such as project='vision'"
        print_message(f"{text}; it is ignored [argument-ignored]")
        return tracker


def _place(job: object, strict: bool) -> Place | None:
    """Return the file and line that call `track`, None for a job of its own (`job="new"`)."""
    if job == "new":
        return None
    if job is not None:
        _wrong(f"job={_short(job)}: only job='new' is known", strict)
    caller = sys._getframe(2)
    return caller.f_code.co_filename, caller.f_lineno


def _runs(function: object) -> bool:
    """Say whether this can be called, or will be as a method is."""
    return callable(function) or hasattr(function, "__func__")


def _unknown(key: str, then: str = "") -> str:
    """Return what to say of an argument that `track` does not have; `then` is what follows."""
    from gramwatt.collectors.settings.config import PARSERS, PREFIX, close_matches

    text = f"track() has no argument {key!r}{then}"
    if key in PARSERS:
        return f"{text}; set {PREFIX}{key.upper()}, or {key} in gramwatt.toml"
    return text + close_matches(key, _OPTIONS)


def _wrong(text: str, strict: bool) -> None:
    """Report an argument of a wrong value; raises TypeError with `strict`."""
    if strict:
        raise TypeError(text)
    print_message(f"{text}; it is ignored [argument-ignored]")


def _script_name(place: Place | None) -> str:
    """Return the script's name; that of the caller's file where it has none, as with python -c."""
    path: str = (getattr(sys, "argv", None) or [""])[0]
    script = os.path.basename(path)
    if script == "__main__.py":  # python -m PACKAGE
        return os.path.basename(os.path.dirname(path))
    caller = os.path.basename(place[0]) if place else ""
    if script in ("-c", "-m", "") and caller[:1] not in ("<", "") and caller != _CALLBACKS:
        return caller
    return "notebook" if "ipykernel" in script else script


def _check(options: Mapping[str, Any], unknown: list[str]) -> None:
    if not switched_off() and (text := refused()):
        raise RuntimeError(text)
    if unknown:
        raise TypeError(_unknown(unknown[0]))
    from gramwatt.collectors.settings.catalogs import place_problems
    from gramwatt.collectors.settings.config import resolve

    config = resolve(options)
    problems = [problem.text for problem in config.problems]
    problems += place_problems(config).values()
    if problems:
        raise ValueError("; ".join(problems))
