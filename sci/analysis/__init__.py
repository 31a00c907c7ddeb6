"""What follows from stored score documents: sums, comparisons, checks and requests for data.

Imports `score` and lower layers. Its functions: `month.month_document`,
`model_totals.model_totals`, `compare.compare`, `audit.self_audit`, `data_requests.data_requests`.
"""
