"""The database: models, migrations, sessions and stored documents, for SQLite and PostgreSQL.

`database.Store`, `migrate.upgrade`, `documents.read_job`, `timestamps.to_us`.
"""
