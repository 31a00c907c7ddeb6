"""One job: its records read back (`journal`), scored (`scoring`), and its newest document.

`documents.job_document` is what routes, commands and reports start from, `comparison.comparison`
sets runs against each other, `deleted` refuses jobs that were deleted. Imports `intensity`.
"""
