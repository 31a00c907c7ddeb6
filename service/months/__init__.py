"""A month's report: its sums, trend, budgets, what became of suggestions, and kept revisions.

`report.month_report` puts it together, out of sums that `stored` keeps; `overview` shows a month at
a glance, `archive` which reports are kept, `badges` a project's badge. `sums` adds parts of jobs.
"""
