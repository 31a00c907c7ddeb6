"""The tables of 0.1.0, made as the models describe them, and the triggers of the audit log.

Until the release this migration changes with the models; with it, their operations are written out
here, and what comes later gets a migration of its own.
"""

from alembic import op
from sqlalchemy.util import OrderedSet

from gramwatt.service.store.tables import METADATA

revision = "v1"
down_revision = None
branch_labels = None
depends_on = None

SQLITE = """CREATE TRIGGER audit_no_{event} BEFORE {event} ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END"""
POSTGRES = (
    """CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'the audit log is append-only'; END $$""",
    """CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change()""",
)


def upgrade() -> None:
    """Make every table, its indexes by name: SQLAlchemy keeps them in a set, in no order."""
    for table in METADATA.tables.values():
        table.indexes = OrderedSet(sorted(table.indexes, key=lambda index: str(index.name)))
    METADATA.create_all(op.get_bind())
    if op.get_bind().dialect.name == "sqlite":
        for event in ("UPDATE", "DELETE"):
            op.execute(SQLITE.format(event=event))
    else:
        for statement in POSTGRES:
            op.execute(statement)
