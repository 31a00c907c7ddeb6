"""The web pages, rendered on the server.

Imports the API's parsing, problems and reports, use cases and `reports`; no SQL. Public:
`routes.install`.
"""
