"""The pages for people, rendered on the server.

May import the API's parsing, problems and reports, and use cases; no SQL. `routes.install`.
"""
