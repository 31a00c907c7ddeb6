"""Job and month documents for every test: the engine scores made-up journals, so they are whole."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import msgspec

from gramwatt.sci.catalog.catalog import Catalog, load_catalog
from gramwatt.sci.figures.document import JobDoc
from gramwatt.sci.figures.quantity import Kind, kind_of_sum, total_known
from gramwatt.sci.grid.intensity import IntensityLookup
from gramwatt.sci.grid.zones import AnnualIntensity
from gramwatt.sci.month.documents import ModelDoc, MonthDoc, TermsDoc
from gramwatt.sci.month.model_totals import RunHead, Summing, totals_of_runs
from gramwatt.sci.records.merge import merge
from gramwatt.sci.records.records import AnyRecord
from gramwatt.sci.score.score import ScoreContext, score
from tests.journals import H100, T0, FakeGrid, Load, Writer, metered
from tests.months import month_document

CATALOG = load_catalog()
HOSTILE = (
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)> & 'quotes'",
    '#let x = 1; $a_b$ *bold* _it_ \\ [c] @ref #image("x")',
    "🚀 emoji ünïcödé",
    "שלום עולם",
    "\u202egnp.exe\u202c",
    "line\nbreak\ttab\x00nul\x1b[31m",
    "half a character \udc80",
    "</script><!-- {{ 7 * 7 }} {% raw %}",
    "x" * 500,
)
"""Free texts that must stay texts on every page and in every file."""
DAILY = FakeGrid(
    *(210 + 17.5 * abs(hour - 12) for hour in range(24)), first=T0.replace(hour=0), error=0.08
)
"""A grid whose intensity falls until noon and rises again: 420 to 210 g/kWh."""
IRREGULAR = tuple(60 + (n * 7919) % 400 + 0.1 for n in range(400))
"""Intensities between 60 and 459 g/kWh with nothing regular about them."""


def irregular_grid(
    step_s: float = 3600.0, quality: str = "hourly", *, scale: float = 1.0
) -> FakeGrid:
    """Steps of `IRREGULAR` times `scale`, with edges 20 minutes after the full hour."""
    first = T0 - timedelta(minutes=40)
    values = (value * scale for value in IRREGULAR)
    return FakeGrid(*values, step_s=step_s, first=first, quality=quality, error=0.1)


def model_totals(model_id: str, jobs: Iterable[JobDoc], *, unscored: int = 0) -> ModelDoc:
    """The sums over all runs of a model, out of their documents."""
    documents = {job.job_id: job for job in jobs}
    heads = msgspec.convert(
        list(documents.values()), list[RunHead], from_attributes=True, strict=False
    )

    def terms(runs: Sequence[RunHead]) -> TermsDoc:
        known = [documents[run.job_id] for run in runs]
        energy, operational, embodied = (
            total_known(getattr(job, term) for job in known)
            for term in ("energy_kwh", "operational_g", "embodied_g")
        )
        by_kind: dict[Kind, float] = defaultdict(float)
        for job in known:
            if job.energy_kwh:
                for kind, share in job.data_quality.energy.items():
                    by_kind[kind] += share * job.energy_kwh.value
        energy = energy.of_kind(kind_of_sum(by_kind)) if energy and by_kind else energy
        emitted = operational + embodied if operational and embodied else None
        return TermsDoc(energy, operational, embodied, emitted)

    def method(run: RunHead) -> tuple[str, str]:
        own = documents[run.job_id].method
        return own.intensity_signal, own.intensity_basis

    return totals_of_runs(model_id, heads, Summing(terms, method), unscored=unscored)


Changed = TypeVar("Changed", bound=msgspec.Struct)


def changed(document: Changed, **fields: Any) -> Changed:
    """The document with other fields; what is a struct in it may be given as a dictionary."""
    data = {**msgspec.to_builtins(document), **msgspec.to_builtins(fields)}
    return msgspec.convert(data, type(document))


def scored(
    records: Iterable[AnyRecord],
    intensity: IntensityLookup | None = None,
    catalog: Catalog = CATALOG,
    **context: Any,
) -> JobDoc:
    """The document of a journal, on the catalog's annual intensities unless another is given."""
    context = {"intensity": intensity or AnnualIntensity(catalog), **context}
    return score(merge(records), ScoreContext(catalog, **context))


def journal_of(
    *devices: Any,
    job_id: str = "job-1",
    node: str = "n-1",
    end_s: float = 60,
    more: Sequence[Any] = (),
    **head: Any,
) -> list[AnyRecord]:
    """A job of devices, each an id, its record, and its intervals as start, end, joules, fields."""
    writer = Writer(node=node, job=job_id)
    records: list[AnyRecord] = [writer.job(**{"zone": "DE", "pue": 1.0, **head})]
    for device_id, device, intervals in devices:
        records.append(writer.device(device_id, **device))
        for start, end, joules, *fields in intervals:
            of = {"kind": device.get("kind", "measured"), **(fields[0] if fields else {})}
            records.append(writer.interval(start, end, joules, device_id, **of))
    return [*records, *(make(writer) for make in more), writer.end(end_s)]


def steady_job(job_id: str = "job-1", *, hours: int = 2, watts: float = 500, **head: Any) -> JobDoc:
    """Four H100 of `watts` each and a CPU of 200 W for some hours, and 1 281 167 images."""
    writer = Writer(job=job_id)
    given = {"units": ("image",), "zone": "DE", "pue": 1.1, "name": job_id, "project": "vision"}
    busy = {"utilisation_mean": 0.9}
    loads = [Load(f"GPU-{n}", lambda _: watts, H100, sample=lambda _: busy) for n in range(4)]
    cpu = {"device_class": "cpu", "name": "Intel Xeon Platinum 8480C"}
    loads.append(Load("n-1-cpu", lambda _: 200, cpu, "estimated"))
    return scored(
        [
            writer.job(**{**given, **head}),
            *metered(writer, loads, seconds=hours * 3600, step_s=60),
            writer.count(1_281_167),
            writer.end(hours * 3600, meter_cpu_s=1.3),
        ]
    )


def varied_job(
    job_id: str = "train-01",
    *,
    gpus: int = 4,
    hours: float = 3.0,
    start: float = 0.0,
    state: str | None = None,
    **head: Any,
) -> JobDoc:
    """GPUs with warm-up, pauses and profiles, CPU and memory by a model, on the daily grid."""
    given = {"units": ("image",), "zone": "DE", "pue": 1.12, "project": "vision"}
    given |= {"name": "resnet50 on imagenet", "kind": "training", **head}
    writer, seconds = Writer(job=job_id), hours * 3600
    ended = {"meter_cpu_s": 4.2 * hours, "meter_rss_b": 26e6, "exit_code": 0 if not state else 1}
    records = [
        writer.job(role="command", started_at=writer.at(start), **given),
        *metered(writer, _varied_loads(gpus), seconds=seconds, step_s=300, start=start),
        writer.count(1_281_167 * hours, given["units"][0], seconds=start + 1),
        writer.end(start + seconds, state or "completed", **ended),
    ]
    return scored(records, DAILY)


def _varied_loads(gpus: int) -> list[Load]:
    def gpu(n: int) -> Load:
        def power_w(since_s: float) -> float:
            return 95 + 465 * _busy(since_s) - 6 * n

        def sample(since_s: float) -> Mapping[str, Any]:
            busy = _busy(since_s)
            seen = {"utilisation_mean": busy, "memory_peak_b": 61e9, "profile": _profile(n, busy)}
            return {**seen, "power_max_w": power_w(since_s) + 40}

        return Load(f"GPU-{n}", power_w, H100, sample=sample)

    model = {"meter": "codecarbon"}
    host = {**model, "device_class": "cpu", "name": "Intel Xeon Platinum 8480C", "units": 112}
    memory = {**model, "device_class": "ram", "name": "memory", "memory_b": 2.0**40}
    return [
        *map(gpu, range(gpus)),
        Load("cpu-0", lambda since_s: 150 + 90 * _busy(since_s), host, "estimated"),
        Load("ram-0", lambda _: 48.0, memory, "estimated"),
    ]


def _profile(number: int, busy: float) -> dict[str, float]:
    """Board 0 runs hot and against its limit, board 1 reports nothing of its clocks."""
    ran = {"memory_busy": round(busy / 2, 3), "temperature_c": 61.0 + 5 * (number == 0)}
    if number == 1:
        return ran
    capped = 0.8 if number == 0 and busy > 0.8 else 0.0
    heat = 0.05 if number == 0 else 0.0
    return {**ran, "power_capped": capped, "thermally_slowed": heat, "hardware_slowed": 0.0}


def _busy(since_s: float) -> float:
    """Utilisation: a warm-up of 10 min, then full work with a pause at the end of each hour."""
    if since_s < 600:
        return 0.35
    return 0.2 if since_s % 3600 >= 3300 else 0.95 - 0.05 * ((since_s // 300) % 3)


def cluster_journal(
    *,
    gpus: int = 2,
    nodes: Sequence[str] = ("n-a",),
    seconds: float = 9000.0,
    start: float = 0.0,
    step_s: float = 300.0,
    **head: Any,
) -> list[AnyRecord]:
    """A training job on several nodes; every GPU draws a power of its own, the host another."""
    given = {"zone": "DE", "pue": 1.21, "units": ("token",), "name": "run 1", **head}
    records: list[AnyRecord] = []
    for index, node in enumerate(nodes):
        writer = Writer(f"w{index}", node=node)
        loads = [
            Load(f"GPU-{node}-{n}", _wobble(611.37 + 13 * n + 101 * index, step_s), H100)
            for n in range(gpus)
        ]
        cpu = {"device_class": "cpu", "name": "CPU", "units": 32.0}
        loads.append(Load(f"cpu-{node}", _wobble(187.7, step_s), cpu))
        records += [
            writer.job(role="command", started_at=writer.at(start), **given),
            *metered(writer, loads, seconds=seconds, step_s=step_s, start=start),
            writer.count(48_234_496.0, "token", seconds=start + 1),
            writer.end(start + seconds, exit_code=0),
        ]
    return records


def _wobble(watts: float, step_s: float) -> Any:
    return lambda since_s: watts * (1 + 0.1 * ((since_s // step_s) % 3))


def cluster_job(*, intensity: IntensityLookup | None = None, **given: Any) -> JobDoc:
    """The scored document of `cluster_journal(**given)`, on the irregular grid."""
    return scored(cluster_journal(**given), intensity or irregular_grid())


def world_job() -> JobDoc:
    """A job without zone or PUE, on hardware the catalog does not know."""
    writer = Writer(job="mystery")
    return scored(
        [
            writer.job(name="mystery run", project="lab"),
            writer.device("GPU-0", name="Unheard-of Accelerator 9000"),
            writer.interval(0, 1800, 300 * 1800, "GPU-0"),
            writer.end(1800, exit_code=0),
        ],
        DAILY,
    )


def unread_job(**head: Any) -> JobDoc:
    """A job of which no energy was read: every term that needs it is unknown."""
    writer = Writer(job="unread")
    return scored([writer.job(**head), writer.end(60)])


def hostile_job(text: str) -> JobDoc:
    """A job whose every free text is `text`."""
    writer = Writer(job="hostile")
    head = {"name": text, "project": text, "units": ("image",), "zone": "DE", "pue": 1.1}
    return scored(
        [
            writer.job(model_id=text, tags={"note": text}, **head),
            writer.device("GPU-0", name=text),
            writer.interval(0, 600, 60_000, "GPU-0"),
            writer.count(10),
            writer.end(600),
        ],
        DAILY,
    )


def month_of(jobs: Sequence[JobDoc], previous: Sequence[JobDoc] = (), **given: Any) -> MonthDoc:
    """The month that the jobs lie in, complete unless `given` says otherwise."""
    return month_document("2026-05", jobs, previous, **{"ended": True, **given})


def full_month() -> MonthDoc:
    """A month of 24 jobs in three projects, one failed, one killed, after a smaller month."""
    plan = (("vision", "image"), ("speech", "second of audio"), ("assistant", "token"))
    jobs = []
    for n in range(24):
        project, unit = plan[n % 3]
        jobs.append(
            varied_job(
                f"{project}-{n:02d}",
                name=f"{project} run {n}",
                project=project,
                units=(unit,),
                gpus=2 + 2 * (n % 4),
                hours=1 + n % 5,
                start=n * 100_000.0,
                state={5: "failed", 11: "killed"}.get(n),
            )
        )
    before = [
        varied_job(f"april-{n}", start=-86_400.0 * 20 + n * 86_400.0, hours=1) for n in range(3)
    ]
    return month_of(jobs, before)
