"""Alembic's scripts, part of the package; `gramwatt.service.store.migrate` runs them."""

HEAD = "0004"
"""The newest revision; a test holds it against the scripts."""
