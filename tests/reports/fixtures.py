"""Rich documents with made-up readings: the engine does the arithmetic, so they are consistent."""

from datetime import timedelta

from gramwatt.sci.analysis.month import month_document
from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.catalog.catalog import load_catalog
from gramwatt.sci.grid.intensity import IntensityPoint
from gramwatt.sci.journal.merge import merge
from gramwatt.sci.score.score import ScoreContext, score
from tests.sci.writers import T0, Writer

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
H100 = {"name": "NVIDIA H100 80GB HBM3", "units_total": 8}


class HourlyGrid:
    """A grid whose intensity falls until noon and rises again: 420 to 210 g/kWh."""

    def points(self, zone, start, end):
        hour = timedelta(hours=1)
        first = start.replace(minute=0, second=0, microsecond=0)
        found = []
        while first < end or not found:
            value = 210 + 17.5 * abs(first.hour - 12)
            figure = Quantity.around(value, 0.08, "gCO2e/kWh", "measured", "made-up grid, hourly")
            found.append(IntensityPoint(zone or "world", first, first + hour, figure, "hourly"))
            first += hour
        return found


def records(job_id="train-01", *, gpus=4, hours=3.0, start=0.0, watts=560, state=None, **head):
    """The journal of one job: GPUs by counter, host by model, with warm-up and pauses."""
    given = {"units": ("image",), "zone": "DE", "pue": 1.12, "project": "vision", **head}
    given = {"name": "resnet50 on imagenet", "kind": "training", **given}
    writer = Writer(job=job_id)
    found = [writer.job(role="command", started_at=T0 + timedelta(seconds=start), **given)]
    found += [writer.device(f"GPU-{n}", **H100) for n in range(gpus)]
    host = {"device_class": "cpu", "name": "Intel Xeon Platinum 8480C", "units": 112}
    memory = {"device_class": "ram", "name": "memory", "memory_b": 2.0**40}
    found.append(writer.device("cpu-0", kind="estimated", meter="codecarbon", **host))
    found.append(writer.device("ram-0", kind="estimated", meter="codecarbon", **memory))
    moment, end = start, start + hours * 3600
    while moment < end:
        step = min(300.0, end - moment)
        busy = _busy(moment - start)
        for n in range(gpus):
            power = 95 + (watts - 95) * busy - 6 * n
            more = {"utilisation_mean": busy, "memory_peak_b": 61e9, "power_max_w": power + 40}
            more["profile"] = _profile(n, busy)
            found.append(writer.interval(moment, moment + step, power * step, f"GPU-{n}", **more))
        for name, power in (("cpu-0", 150 + 90 * busy), ("ram-0", 48.0)):
            found.append(
                writer.interval(moment, moment + step, power * step, name, kind="estimated")
            )
        moment += step
    found.append(writer.count(1_281_167 * hours, given["units"][0], seconds=start + 1))
    code = {"exit_code": 0} if state is None else {"exit_code": 1}
    found.append(
        writer.end(end, state or "completed", meter_cpu_s=4.2 * hours, meter_rss_b=26e6, **code)
    )
    return found


def _profile(number, busy):
    """Board 0 runs hot and against its limit, board 1 tells nothing of its clocks."""
    ran = {"memory_busy": round(busy / 2, 3), "temperature_c": 61.0 + 5 * (number == 0)}
    if number == 1:
        return ran
    capped = 0.8 if number == 0 and busy > 0.8 else 0.0
    heat = 0.05 if number == 0 else 0.0
    return {**ran, "power_capped": capped, "thermally_slowed": heat, "hardware_slowed": 0.0}


def _busy(since_s):
    """Utilisation: a warm-up of 10 min, then full work with a pause at the end of each hour."""
    if since_s < 600:
        return 0.35
    return 0.2 if since_s % 3600 >= 3300 else 0.95 - 0.05 * ((since_s // 300) % 3)


def job(job_id="train-01", **given):
    """The scored document of `records`."""
    return scored(records(job_id, **given))


def scored(lines):
    """The document of a journal, on the made-up grid."""
    return score(merge(lines), ScoreContext(CATALOG, HourlyGrid()))


def world_job():
    """A job without zone or PUE, on hardware the catalog does not know."""
    writer = Writer(job="mystery")
    lines = [writer.job(name="mystery run", project="lab")]
    lines += [writer.device("GPU-0", name="Unheard-of Accelerator 9000")]
    lines += [writer.interval(0, 1800, 300 * 1800, "GPU-0"), writer.end(1800, exit_code=0)]
    return scored(lines)


def unread_job():
    """A job of which no energy was read: every term that needs it is unknown."""
    writer = Writer(job="unread")
    return scored([writer.job(zone="DE"), writer.end(60)])


def hostile_job(text):
    """A job whose every free text is `text`."""
    writer = Writer(job="hostile")
    head = {"name": text, "project": text, "units": ("image",), "zone": "DE", "pue": 1.1}
    lines = [writer.job(model_id=text, tags={"note": text}, **head)]
    lines += [writer.device("GPU-0", name=text), writer.interval(0, 600, 60_000, "GPU-0")]
    lines += [writer.count(10), writer.end(600)]
    return scored(lines)


def month(**given):
    """A month of 24 jobs in three projects, one failed, one killed, after a smaller month."""
    plan = (("vision", "image"), ("speech", "second of audio"), ("assistant", "token"))
    jobs = []
    for n in range(24):
        project, unit = plan[n % 3]
        jobs.append(
            job(
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
    before = [job(f"april-{n}", start=-86_400.0 * 20 + n * 86_400.0, hours=1) for n in range(3)]
    return month_document("2026-05", jobs, before, **{"complete": True, **given})


def empty_month():
    """A month without a job."""
    return month_document("2026-05", [], complete=True)
