"""A month's report: its sums, trend, budgets, what became of suggestions, and kept revisions.

`report.month_report` puts it together, out of sums that `stored` keeps. Imports `store`, `sci`,
`access` and `advice`.
"""
