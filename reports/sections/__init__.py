"""Sections of reports: functions that turn part of a document into blocks.

`reports/job.py` and `reports/month.py` call them. `common` has what both reports share, `month` the
sections of the month alone.
"""
