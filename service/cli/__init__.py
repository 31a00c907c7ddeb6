"""The commands that need the store: jobs, job, compare, month, report, serve, admin and others.

`collectors.cli.app` has the table of all. Modules here import what a command needs when it runs:
start-up time counts.
"""
