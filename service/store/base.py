"""The root of the tables, and the types of their columns, for SQLite and PostgreSQL alike.

Tables are in modules by who reads them: a command pays a millisecond or two for each that it
imports. `tables.py` has them all. Times are integer microseconds UTC (`..._us`), because SQLite
gives datetimes back without a zone. Documents are JSON texts, kept exactly as the engine wrote
them.
"""

from typing import Annotated, Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Double,
    Index,
    Integer,
    MetaData,
    String,
    Text,
    bindparam,
    literal,
    select,
    text,
    true,
)
from sqlalchemy.orm import DeclarativeBase, mapped_column

Key = BigInteger().with_variant(Integer, "sqlite")
"""SQLite numbers rows by itself only in a column of type INTEGER."""

AutoKey = Annotated[int, mapped_column(Key, primary_key=True, autoincrement=True)]
Timestamp = Annotated[int, mapped_column(BigInteger)]
Identifier = Annotated[str, mapped_column(String(128))]
Label = Annotated[str, mapped_column(String(512))]
Word = Annotated[str, mapped_column(String(64))]
Figure = Annotated[float, mapped_column(Double)]
Document = Annotated[str, mapped_column(Text)]
Month = Annotated[str, mapped_column(String(7))]
PROJECTS = "gramwatt_projects"
"""Where a restricted session keeps its projects, and the parameter by which each statement gets
them: one set of conditions serves all, so that nothing is kept by what callers name.
"""
LABEL_MOST = 400
"""Characters of a label: an index of PostgreSQL holds up to 2704 bytes, and a character takes 4."""
ONLY = "only"
"""The kind of database in the `info` of an index that the other does without."""
POSTGRESQL = "postgresql"
"""Options of an index on PostgreSQL, in its `info`: `tables.py` gives them to it. To name them here
would load that dialect in every command, which takes a tenth of its time.
"""


def partial_index(name: str, *columns: str, where: str) -> Index:
    """Return an index over the few rows that a task looks for."""
    options = {POSTGRESQL: {"where": text(where)}}
    return Index(name, *columns, sqlite_where=text(where), info=options)


class Base(DeclarativeBase):
    """Root of the models; constraint names are fixed, so that migrations can name them."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )

    @classmethod
    def of_projects(cls) -> ColumnElement[bool]:
        """Return the condition that a row is of the projects of a session (`restriction.py`).

        Rows of tables that have none are everybody's.
        """
        way = way_to_project(cls.__table__) if cls is not Base else ()
        return _is_of(cls.__table__.c, way) if way else true()


def way_to_project(table: Any) -> tuple[str, ...]:
    """Return the columns to follow from a table to a project, the last is `project`; none of a
    table that is of no project.
    """
    if "project" in table.c:
        return ("project",)
    for key in table.foreign_keys:
        if further := way_to_project(key.column.table):
            return (key.parent.name, *further)
    return ()


def _is_of(columns: Any, way: tuple[str, ...]) -> Any:
    """Return the condition that a row is of the session's projects; correlated, so that its own
    index leads.
    """
    column = columns[way[0]]
    if len(way) == 1:
        return column.in_(bindparam(PROJECTS, expanding=True))
    (key,) = column.foreign_keys
    parent = key.column.table.alias()
    rows = select(literal(1)).select_from(parent)
    return rows.where(parent.c[key.column.name] == column, _is_of(parent.c, way[1:])).exists()
