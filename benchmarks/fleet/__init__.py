"""How large and how fast archives of simulated fleets are, beside plain DuckDB and PostgreSQL."""
