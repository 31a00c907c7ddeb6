"""Months as sums of numbers, so that no job's document is read for them.

`part` makes a job's part of a month out of its document, `keeping` stores it, `arrays` reads the
parts of many jobs, `figures` adds figures with their ranges, `totals`, `accounts` and `month` make
the month's sums, `decomposition` explains their change, `previous` is what the month after is
compared with, and `model` sums a model's runs.
"""
