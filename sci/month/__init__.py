"""The month: rows that a scored job adds to its months, and the document that is made of sums.

`columns` describes the tables, `rows` fills them, `change` says why a month differs from the
one before. The sums are SQL (`service/months`).
"""
