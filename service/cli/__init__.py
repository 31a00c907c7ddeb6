"""The commands that need the store: jobs, job, report, export, serve and db.

May import every lower layer of the service, except demo. `app.add_commands(app)` adds them to the
product's command. Modules here import what a command needs when it runs: start-up time counts.
"""
