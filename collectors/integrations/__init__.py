"""Doors into the tools where jobs already are: training frameworks, trackers, notebooks.

One module a tool, asked for by name (gramwatt.integrations.transformers), which imports that tool
and nothing else; docs/integrations.md has a section for each. A door that fails leaves one notice
in the report and never an exception in the job.
"""
