"""`gramwatt doctor`: what can be measured here, how well, what is missing, and the exact fix.

`diagnosis.diagnose` runs all checks; one file holds the checks of one subject.
"""
