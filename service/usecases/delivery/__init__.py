"""Where finished monthly reports go: a folder, an S3-compatible store, or a mailbox.

`reports.announce` puts them into the outbox, `reports.files` makes the files, `s3.put` signs and
sends. The outbox of budgets sends them, again and again until they are taken.
"""
