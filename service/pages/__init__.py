"""The web pages, rendered on the server, with nothing from outside. No SQL.

One file a subject; `frame` has what they share, `filters` the filters of the templates. Without
script they are whole pages; htmx, carried along, shows anew what changes by itself.
`routes.pages` is their blueprint.
"""
