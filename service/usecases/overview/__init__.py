"""A month at a glance, out of stored sums: for the first page and the list of projects.

Public: `glance.look`, `glance.Glance`.
"""
