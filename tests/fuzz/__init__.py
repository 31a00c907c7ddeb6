"""Inputs that nobody would write, against the parsers of what comes from outside.

`targets` says what each parser may do with an input, `inputs` makes inputs out of valid ones. Those
that broke something are kept in `tests/data/fuzz` and tried by `test_kept_inputs`; more are made by
`python -m benchmarks.fuzz`.
"""
