"""The command `gramwatt`, as far as it needs no store: run, top, sync, doctor, config, catalog, ...

`app.build_app` makes the app; each module has a command and adds it (`catalog.add_catalog`), as the
service adds its own. `run` is a package, the largest of them; `summary.summary_lines` makes the
summary of a scored job.
"""
