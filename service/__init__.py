"""The service: store, API, pages, scheduler and the commands that need them.

    ground up: config, store, container and metrics; usecases; tasks and api; pages; app; server;
    cli; demo

Each may import those before it. `app.create_app` is the WSGI application, `server.run` the whole
service in one process, `cli.app.add_commands` the commands.
"""
