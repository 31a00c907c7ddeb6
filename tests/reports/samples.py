"""Job and month documents made by the engine itself, for the reports' tests."""

from gramwatt.sci.analysis.month import month_document
from gramwatt.sci.catalog.catalog import load_catalog
from gramwatt.sci.grid.zones import AnnualIntensity
from gramwatt.sci.journal.merge import merge
from gramwatt.sci.score.score import ScoreContext, score
from tests.sci.writers import Writer

CATALOG = load_catalog()
HOSTILE = '<script>alert(1)</script> "#let x" $a_b$ *b* \\[c] \u202e@ref #image("x") 🌍'


def job(job_id="job-1", *, hours=2, watts=500, **given):
    """Four H100, a CPU and its memory for some hours; `given` goes into the job record."""
    writer = Writer(job=job_id)
    head = {"units": ("image",), "zone": "DE", "pue": 1.1, "name": job_id, "project": "vision"}
    records = [writer.job(**{**head, **given})]
    for index in range(4):
        records.append(writer.device(f"GPU-{index}", name="NVIDIA H100 80GB HBM3", units_total=8))
    records.append(
        writer.device(
            "n-1-cpu", device_class="cpu", name="Intel Xeon Platinum 8480C", kind="estimated"
        )
    )
    for start in range(0, hours * 3600, 60):
        for index in range(4):
            records.append(
                writer.interval(start, start + 60, 60 * watts, f"GPU-{index}", utilisation_mean=0.9)
            )
        records.append(writer.interval(start, start + 60, 60 * 200, "n-1-cpu", kind="estimated"))
    records += [writer.count(1_281_167), writer.end(hours * 3600, meter_cpu_s=1.3)]
    return scored(records)


def unknown_job(job_id="job-x"):
    """A job of which nothing was read."""
    writer = Writer(job=job_id)
    return scored([writer.job(), writer.end(5)])


def scored(records):
    """The document of a journal."""
    return score(merge(records), ScoreContext(CATALOG, AnnualIntensity(CATALOG)))


def month(jobs, previous=(), **given):
    """The month all samples lie in."""
    return month_document("2026-05", jobs, previous, **{"complete": True, **given})
