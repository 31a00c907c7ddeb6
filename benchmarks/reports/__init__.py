"""How long reports take, beside typst alone; and the months that the example reports show.

- `python -m benchmarks.reports`: the measurements.
- `python -m benchmarks.reports.examples FOLDER`: the example reports of docs/examples.
"""
