"""Reports of jobs and months as HTML, PDF and CSV.

`reports` makes them, in a server in a process of its own (`process`).
"""
