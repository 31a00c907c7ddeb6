"""Months: rows of jobs, their sums by SQL, kept sums, reports and revisions.

`rows.keep_rows` stores what a score adds, `statements` and `sums.sum_month` add it up,
`cache.month_sums` keeps the sums until a score changes them. `report.month_report` is a month's
document, `revisions` keeps it, `overview` shows it at a glance, `badges` a project's badge.
"""
