"""How the tables behind the suggestions are made, and how accurate the suggestions are.

`python -m benchmarks.suggestions.tables` makes `sci/advice/data/{fit,ranges,power,evidence}.csv`
and docs/suggestions-accuracy.md; `python -m benchmarks.suggestions` prints accuracy and speed.
"""
