"""A score whose inputs are all exact, as printed by `gramwatt job`."""

import json

from gramwatt.collectors.cli.summary import summary_lines
from gramwatt.sci.figures.formatting import plain
from gramwatt.service.jobs.ingest import ingest
from gramwatt.service.jobs.lists import revisions_page
from tests.journals import START, Writer, lines
from tests.service.cli.command import gramwatt
from tests.service.keyed import store_of

OVERLAY = """
[hardware.acme-x1]
source = "data sheet"
name = "X1"
class = "accelerator"
embodied_kg = 36.5
embodied_low_kg = 36.5
embodied_high_kg = 36.5
embodied_includes_host = true
[lifetimes.default]
source = "our books"
years = 5
low = 5
high = 5
[zones.LAB]
source = "our plant"
g_per_kwh = 100
low = 100
high = 100
year = 2026
"""


def test_an_exact_score_has_no_empty_bracket(home):
    """1 kWh at 100 g, and 36 500 g x 1 h over 43 800 h: 100.8333 g over 10 images."""
    home.mkdir(parents=True)
    (home / "overlay.toml").write_text(OVERLAY)
    meter = Writer(job="job-1", t0=START)
    acme = {"name": "X1", "device_class": "accelerator", "meter": "bill", "kind": "declared"}
    records = [
        meter.job(zone="LAB", pue=1.0, units=("image",)),
        meter.device("X1-0", **acme),
        meter.interval(0, 3600, 3.6e6, "X1-0", kind="declared"),
        meter.count(10, seconds=60),
        meter.end(3600),
    ]
    with store_of(home) as service:
        ingest(service, "job-1", lines(records))
    code, out, _ = gramwatt("job", "job-1")
    assert code == 0
    [line] = [line for line in out.splitlines() if line.startswith("SCI per image")]
    assert "()" not in line
    assert line.split("image", 1)[1].split() == ["10.08", "g", "CO2e/image,", "R", "=", "10"]


def test_no_count_is_rounded_anywhere(home):
    """1 234 567 images, then 1 more: with six digits both would be 1.23457e+06."""
    meter = Writer(job="job-1", t0=START)
    records = [
        meter.job(zone="FR", units=("image",)),
        meter.device("GPU-1"),
        meter.interval(0, 3600, 3.6e6, "GPU-1"),
        meter.count(1_234_567, seconds=60),
        meter.end(3600),
    ]
    with store_of(home) as service:
        ingest(service, "job-1", lines(records))
        assert "R = 1 234 567" in gramwatt("job", "job-1")[1]
        ingest(service, "job-1", lines([meter.count(1, seconds=61)]))
        assert "R = 1 234 568 image" in gramwatt("job", "job-1", "--explain", "sci")[1]
        newest = revisions_page(service, "job-1", 1, None).revisions[0]
    assert "R in image 1 234 567 -> 1 234 568" in plain(newest.change.text)
    for form in ("csv", "if"):
        code, out, _ = gramwatt("report", "job", "job-1", "--format", form, "-o", "-")
        assert (code, "1234568" in out, "1.23457" in out) == (0, True, False), form
    document = json.loads(gramwatt("job", "job-1", "--json")[1])
    assert "1 234 568 counted" in "\n".join(summary_lines(document, "x"))
