"""`gramwatt doctor`: what can be measured here, how well, what is missing, and the exact fix.

`diagnosis.examine` runs all checks and `diagnosis.lines` writes the findings for a terminal; one
file holds the checks of one subject.
"""
