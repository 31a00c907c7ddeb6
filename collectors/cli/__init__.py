"""The command `gramwatt`, as far as it needs no store: run, top, sync, doctor, config, catalog, ...

`app.build_app` makes the app with run, sync, config and doctor; `catalog.add_catalog`,
`estimate.add_estimate`, `suggest.add_suggest`, `calibrate.add_calibrate` and the service add
theirs. `run.measure` runs the command, `summary.summary_lines` makes the text at the end.
"""
