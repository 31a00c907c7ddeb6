"""Reports of jobs and months as HTML, PDF and CSV, and badges.

`reports` makes them, large ones in a process of their own (`process`); `badges` draws a project's.
"""
