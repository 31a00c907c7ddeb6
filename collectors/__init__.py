"""Collectors: they read power meters while a job runs and keep a journal of its energy.

None needs a web framework or a database. `track.track` runs inside the training process,
`meter.main.main` beside it, and `cli.app` makes the command.
"""
