"""Sections of reports: functions named `..._blocks` that turn part of a document into blocks.

`reports/job.py` and `reports/month.py` call them; the month's own tables are in `reports/month.py`.
Imports gramwatt.sci, reports.model and reports.charts. `common` has what the reports of a
job and of a month share; `daily` and `change` are of the month, the others of the job; `advice` has
a section for each.
"""
