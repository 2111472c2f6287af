"""Tables, derived from records: each store derives its own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Double,
    ForeignKey,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    event,
)
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeDecorator

from sfumato.aggregator.base.columns import KEY, Length, Reference


class CanonicalJson(TypeDecorator[Any]):
    """JSON as text with sorted keys, so that equal values are equal text."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        """Encode a value; None stays NULL."""
        if value is None:
            return None
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        """Decode a value."""
        return None if value is None else json.loads(value)


METADATA = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
"""All tables, with names of constraints that never change."""
_TYPES: Mapping[Any, Any] = {
    bytes: LargeBinary,
    int: BigInteger,
    float: Double,
    bool: Boolean,
    str: Text,
    Literal: String(16),
    Mapping: CanonicalJson,
    Sequence: CanonicalJson,
    dict: CanonicalJson,
    list: CanonicalJson,
}
TABLES: dict[type[Any], Table] = {}
"""The table of each record."""


def derive_table(
    name: str,
    record: type[Any],
    *more: SchemaItem,
    order: Sequence[str] = (),
    is_newest_first: bool = False,
) -> Table:
    """Make the table of a record from its annotations.

    Parameters
    ----------
    record
        Its members are the columns, see :mod:`sfumato.aggregator.base.columns`.
    more
        Indexes, constraints, and columns that the record does not show.
    order, is_newest_first
        The two columns by which pages are ordered, a time and an identity, and the direction.
    """
    columns = [
        _derive_column(member, hint)
        for member, hint in get_type_hints(record, include_extras=True).items()
        if get_origin(hint) is not ClassVar
    ]
    table = TABLES[record] = Table(name, METADATA, *columns, *more)
    table.info.update(
        order=[table.c[each] for each in order], is_newest_first=is_newest_first, ddl=[]
    )
    return table


def _derive_column(name: str, hint: Any) -> Column[Any]:
    marks: list[Any] = []
    is_nullable = False
    while (origin := get_origin(hint)) in (Annotated, Union, UnionType):
        is_nullable = is_nullable or origin is not Annotated
        hint, *rest = get_args(hint)
        marks += rest if origin is Annotated else ()
    lengths = [String(mark.most) for mark in marks if isinstance(mark, Length)]
    return Column(
        name,
        lengths[0] if lengths else _TYPES[origin or hint],
        *(ForeignKey(mark.target) for mark in marks if isinstance(mark, Reference)),
        primary_key=KEY in marks,
        autoincrement=False,
        nullable=is_nullable,
    )


def add_ddl(table: Table, dialect: str, *statements: str) -> None:
    """Run statements of one dialect after a table is created; they are a part of its schema."""
    for statement in statements:
        run_ddl(table, "after_create", dialect, statement)
    table.info["ddl"] += statements


def run_ddl(table: Table, moment: str, dialect: str, statement: str) -> None:
    """Run a statement of one dialect at an event of a table."""
    later: Any = DDL(statement)  # type: ignore[no-untyped-call]
    event.listen(table, moment, later.execute_if(dialect=dialect))
