"""What follows from stored score documents: sums, comparisons, checks and requests for data.

`month.months_of`, `model_totals.model_totals`, `compare.compare`, `repeated.compare_runs`,
`revisions.revision_change`, `audit.self_audit`.
"""
