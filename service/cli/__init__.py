"""The commands that need the store: jobs, job, report, export, serve, db and others.

`app.add_commands` adds them to the product's command. Modules here import what a command needs when
it runs: start-up time counts.
"""
