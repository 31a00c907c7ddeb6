"""Sections of the monthly report: functions that return blocks, called by `reports/month.py`."""
