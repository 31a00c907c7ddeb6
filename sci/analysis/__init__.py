"""What is read out of scores: months, sums by model, comparisons, audits, requests for data.

Imports `score` and what lies below it.
"""
