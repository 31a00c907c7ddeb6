"""What a month's report says beside its own sums: trend, budgets, what became of suggestions.

Imports `store` and `sci`; `usecases.month` puts the report together.
"""
