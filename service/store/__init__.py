"""The database: models, migrations, sessions and stored documents, for SQLite and PostgreSQL.

`database.Store`, `migrate.upgrade`, `columns.read_job`, `columns.to_us`.
"""
