"""The command `gramwatt`: `app.COMMANDS` is the table of its commands, `app.build_app` makes them.

Those here need no store: run, top, sync, login, doctor, catalog, estimate, suggest, slurm.
"""
