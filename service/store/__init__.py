"""The database: typed models, migrations, sessions and upserts for SQLite and PostgreSQL."""
