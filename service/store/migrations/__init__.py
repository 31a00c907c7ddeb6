"""Alembic's scripts, part of the package; `store.migrate` runs them.

They only go up: going back means restoring a copy of the database.
"""

HEAD = "v1"
"""The newest revision; a test holds it against the scripts."""
