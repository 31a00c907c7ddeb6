"""Where finished monthly reports go: a folder, an S3-compatible store, or a mailbox.

`reports` puts them into the outbox, `files` makes them, `s3` signs and sends. The outbox of budgets
sends them, again and again until they are taken. Imports `store`, `month` and `rendering`.
"""
