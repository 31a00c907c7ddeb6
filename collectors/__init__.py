"""Collectors: they read power meters while a job runs and keep a journal of its energy.

    ground up: common, devices, client, journal, sources, gpu, testing, sharing, host, meter,
    doctor, cli

Each room may import those before it, and `gramwatt.sci`; none needs a web framework or a database.
`client.track.track` runs inside the training process, `meter.main.main` beside it, and
`cli.app.build_app` makes the command.
"""
