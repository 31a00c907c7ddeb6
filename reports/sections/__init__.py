"""Sections of reports: each function returns blocks of `reports.model`."""
