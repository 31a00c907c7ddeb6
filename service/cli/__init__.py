"""The commands that need the store: jobs, job, report, export, serve and db.

Imports the lower layers of the service, except `demo`. `app.add_commands(app)` adds them to the
product's command. Modules here import what a command needs when it runs: start-up time counts.
"""
