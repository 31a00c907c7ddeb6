"""Sections of reports: functions named `..._blocks` that turn part of a document into blocks.

They may import gramwatt.sci, reports.model and reports.charts. `common` has what the reports of a
job and of a month share; `daily` and `change` are of the month, the others of the job; `advice` has
a section for each.
"""
