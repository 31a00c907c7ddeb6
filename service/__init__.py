"""The service: store, API, pages, periodic work and the commands that need them.

Layers, lowest first; each may import only earlier ones, and `reports`, `sci`, `collectors.common`,
`collectors.cli.options`, `collectors.journal.spool` and `collectors.journal.recovery`:

    connections, memory, metrics, proxies and stopping; config; logs; store; container;
    rollups; usecases; tasks; api; pages; app; server; demo; cli

`app.create_app` is the WSGI application, `server.run` the whole service in one process,
`cli.app.add_commands` the commands.
"""
