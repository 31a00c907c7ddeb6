"""What follows from stored score documents: sums, comparisons, checks and requests for data.

May import `score` and what lies below it. Its functions: `month.month_document`,
`model_totals.model_totals`, `compare.compare`, `audit.self_audit`, `data_requests.data_requests`.
"""
