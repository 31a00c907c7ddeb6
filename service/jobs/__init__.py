"""Jobs: their records taken in (`ingest`), read back (`journal`), scored (`scoring`), and shown.

`documents.job_document` is what routes, commands and reports start from, `advice.comparison` sets
runs against each other, `advice` answers for a stored job, `corrections.open_job`,
`corrections.correct_job` and `deletion.delete_job` change one. `lists` and `models` show many.
"""
