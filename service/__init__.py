"""The service: store, API, pages, periodic work and the commands that need them.

`app.create_app` makes the WSGI application, `wsgi.create_app` that of a worker of gunicorn with its
threads, `server.run` is the whole service in one process.
"""
