"""The command `gramwatt`, as far as it needs no store: run, top, sync, doctor, config, catalog, ...

`app.build_app` makes the app, to which the commands of the other modules are added, as those of the
service are. `run` is a package, the largest of them; `summary.summary_lines` makes the
summary of a scored job.
"""
