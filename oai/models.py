"""What all tables share: the declarative base with its naming rules, and the kernel's own tables."""

from dataclasses import fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import DateTime, MetaData, func, inspect
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

_NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_T = TypeVar("_T", bound="DataclassInstance")


class Base(DeclarativeBase):
    """The base of every table; times have a zone and are UTC."""

    metadata = MetaData(naming_convention=_NAMES)
    type_annotation_map = {datetime: DateTime(timezone=True)}  # noqa: RUF012 SQLAlchemy's convention


class SigningKey(Base):
    """The key that signs resumption tokens, stored here so that every instance shares it across restarts."""

    __tablename__ = "signing_key"

    purpose: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[bytes]
    created: Mapped[datetime] = mapped_column(server_default=func.now())


class FormerSigningKey(Base):
    """A signing key that was replaced; what it has signed is accepted until a stated time."""

    __tablename__ = "signing_key_former"

    purpose: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[bytes] = mapped_column(primary_key=True)
    created: Mapped[datetime]
    until: Mapped[datetime]


def columns_of(row: Base) -> dict[str, Any]:
    """Return the values of a row's columns by column name."""
    return {attribute.key: getattr(row, attribute.key) for attribute in inspect(type(row)).column_attrs}


def from_row(kind: type[_T], row: object, **own: object) -> _T:
    """Return a value of the dataclass `kind` from the row's attributes, except for the fields given here."""
    names = (field.name for field in fields(kind) if field.init and field.name not in own)
    return kind(**{name: getattr(row, name) for name in names}, **own)
