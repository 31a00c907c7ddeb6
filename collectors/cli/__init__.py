"""The command `gramwatt`: run, top, sync, doctor, config, catalog, estimate and suggest.

`app.build_app` makes the app with `run`, `sync`, `config` and `doctor`; `catalog.add_catalog`,
`estimate.add_estimate`, `suggest.add_suggest` and the service add theirs. `run.measure` runs the
command, `summary.summary_lines` makes the text at the end. Imports `common`, `client`, `journal`,
`doctor` and `sci`.
"""
