"""What the service does: one function per request, command or periodic task. They know no HTTP.

Refusals are the exceptions of `errors`, answers the shapes of `answers`. `intake.ingest.ingest`,
`jobs.documents.job_document`, `lists.jobs_page`, `months.report.month_report`,
`rendering.reports.render_job`.
"""
