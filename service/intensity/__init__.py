"""Grid intensity over time: what was imported, looked up for scores, and used for plans.

`csv_import.import_csv` stores points, `points` reads them, `lookup.StoredIntensity` gives them to
the engine with annual values in the gaps, `plans.plan` answers when and where to run,
and `plans.intensity_over` shows a zone over a span.
"""
