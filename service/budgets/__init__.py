"""Budgets of projects in kgCO2e per month: how far they are spent, and who is told.

`budgets` keeps them and says how they stand, `forecast` where the month will end, `alerts` records
each threshold once a month; `notifications` delivers what they say.
"""
