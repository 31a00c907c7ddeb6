"""The service: store, API, pages, scheduler and the commands that need them.

Layers, lowest first; each may import only earlier ones, and `reports`, `sci`, `collectors.common`,
`collectors.journal.spool` and `collectors.journal.recovery`:

    metrics; config; store; container; usecases; tasks and api; pages; app; server; demo; cli

`app.create_app` is the WSGI application, `server.run` the whole service in one process,
`cli.app.add_commands` the commands.
"""
