"""The web pages, rendered on the server, with nothing from outside.

One file a subject; `frame` has what they share, `texts` the filters of the templates. Without
script they are whole pages; htmx, carried along, shows anew what changes by itself. Imports the
API's parsing, problems and reports, use cases and `reports`; no SQL. Public: `routes.install`.
"""
