"""A score without measuring: `estimate.estimate` answers the checked request of `request`.

Imports `score` and what lies below it.
"""
