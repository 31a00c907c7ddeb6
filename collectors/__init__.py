"""Collectors: they read power meters while a job runs and keep a journal of its energy.

Subpackages, lowest layer first; each may import only earlier ones, and `gramwatt.sci`:

    common, devices, client, journal, sources, gpu, testing, sharing, host, meter, doctor, cli

None needs a web framework or a database. `client.track.track` runs inside the training process,
`meter.main.main` beside it, and `cli.app.build_app` makes the command.
"""
