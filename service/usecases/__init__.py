"""What the service does: one function per request, command or periodic task.

Imports `config`, `container` and `store`; knows no HTTP. Refusals are the exceptions of `errors`,
answers the shapes of `answers`. `ingest.ingest`, `jobs.job_document`, `lists.jobs_page`,
`month.month_report`, `rendering.render_job`, `local_spool.ingest_spool`.
"""
