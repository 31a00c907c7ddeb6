"""The command `gramwatt`: run, sync, doctor, config, catalog, estimate and suggest.

`app.build_app` puts the commands together; the service adds its own to the same app.
"""
