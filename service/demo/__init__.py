"""`gramwatt demo`: train the example twice under the meter, score both, write their reports.

It runs the product's commands, so nothing else of the service is imported here.
"""
