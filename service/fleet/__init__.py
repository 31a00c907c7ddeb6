"""Closed months in open files, and what is computed over them on an existing engine.

`places` are folders and buckets, `manifest` says what a month's files hold, `rows` makes a job's
rows, `parquet` writes and reads them, `archive` archives a month, `restore` brings lines back,
`engines` runs SQL, `compute` sums, restates and audits.
"""
