"""What follows from stored score documents: sums and comparisons.

`month.months_of`, `model_totals.totals_of_runs`, `compare.compare`, `repeated.compare_runs`,
`revisions.revision_change`.
"""
