"""`gramwatt demo`: train the example twice under the meter, score both, write their reports.

`command.add_demo(app)` adds it to the product's command. Everything is done through the commands
that people use themselves, so nothing of the service is imported here.
"""
