"""The database: models, migrations, sessions and stored documents, for SQLite and PostgreSQL.

Imports nothing else of the service. `database.Store`, `migrate.upgrade`, `documents.read_job`,
`timestamps.to_us`.
"""
