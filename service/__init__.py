"""The service: store, API, pages, periodic work and the commands that need them.

`app.create_app` is the WSGI application, `server.run` the whole service in one process,
`cli.app.add_commands` the commands.
"""
