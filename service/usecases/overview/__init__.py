"""A month at a glance, out of stored sums: for the first page and the list of projects.

`month.month_overview`, and `archive.kept_reports` for the archive of monthly reports.
"""
