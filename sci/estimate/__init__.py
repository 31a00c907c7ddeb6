"""A score without measuring: `estimate.estimate` answers a checked request (`request`).

Imports `score` and what lies below it.
"""
