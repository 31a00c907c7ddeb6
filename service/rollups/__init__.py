"""Months as sums of numbers, so that no job's document is read for them.

Imports `store`, `container` and `sci`. `part` makes a job's part of a month out of its document,
`arrays` reads the parts of many jobs, `sums` adds figures with their ranges, `totals` makes the
month's sums, and `model` those of a model's runs.
"""
