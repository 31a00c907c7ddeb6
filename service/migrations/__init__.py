"""Alembic's scripts, part of the package; `gramwatt.service.migrate` runs them."""

HEAD = "0002"
"""The newest revision; a test holds it against the scripts."""
