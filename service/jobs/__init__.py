"""Jobs: their records read back (`journal`), scored (`scoring`), and their newest document.

`documents.job_document` is what routes, commands and reports start from, `comparison.comparison`
sets runs against each other, `advice` answers for a stored job, `opening.open_job`,
`corrections.correct_job` and `deletion.delete_job` change one. Records come by `intake`; `lists`
shows many jobs.
"""
