"""The commands that need the store: jobs, job, report, export, serve, db.

`app.add_commands` adds them to the command of the collectors.
"""
