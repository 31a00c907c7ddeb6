"""Alembic's entry: runs the scripts on the connection that `service.store.migrate` opened."""

from alembic import context

from gramwatt.service.store.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    compare_type=True,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
