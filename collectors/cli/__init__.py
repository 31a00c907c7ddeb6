"""The command `gramwatt`: run, sync, doctor, config, catalog, estimate and suggest.

`app.build_app` makes the app with `run`, `sync`, `config` and `doctor`; `catalog.add_catalog`,
`estimate.add_estimate`, `suggest.add_suggest` and the service add theirs. Imports all rooms of
`collectors`, and `sci`.
"""
