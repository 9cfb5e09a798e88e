"""The tables of harvesters: clients, their requests, and their progress through lists.

They are independent of the archive's tables (`provider.models`), which do not refer to them.
"""

import uuid
from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, Text
from sqlalchemy.orm import Mapped, mapped_column

from oai.models import Base


class ProviderClient(Base):
    """A program that sent requests to the provider: an address (as stored), a user agent and a contact."""

    __tablename__ = "provider_client"

    key: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    """Derived from address, user agent and sender."""
    address: Mapped[str] = mapped_column(Text)
    """Whole, a network, or empty, depending on the settings."""
    user_agent: Mapped[str] = mapped_column(Text)
    """`(others)`: all clients beyond the number that a process distinguishes in a day."""
    sender: Mapped[str] = mapped_column(Text)
    """The header `From`: an e-mail address, if the client sends one."""
    first_request: Mapped[datetime]
    last_request: Mapped[datetime] = mapped_column(index=True)
    requests: Mapped[int] = mapped_column(BigInteger)
    bytes_sent: Mapped[int] = mapped_column(BigInteger)
    refused: Mapped[int] = mapped_column(BigInteger)
    """Requests that were answered with 503."""


class ProviderClientError(Base):
    """Number of answers to a client with each OAI-PMH error."""

    __tablename__ = "provider_client_error"

    client_key: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("provider_client.key", ondelete="CASCADE"), primary_key=True
    )
    code: Mapped[str] = mapped_column(Text, primary_key=True)
    answers: Mapped[int] = mapped_column(BigInteger)


class ProviderList(Base):
    """A list that a harvester reads or has read: a first request and its continuations."""

    __tablename__ = "provider_list"

    key: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    """A hash of the client and of verb, format, set, `from_date` and `until_date`."""
    client_key: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("provider_client.key", ondelete="CASCADE"), index=True
    )
    verb: Mapped[str] = mapped_column(Text)
    metadata_prefix: Mapped[str] = mapped_column(Text)
    set_spec: Mapped[str] = mapped_column(Text)
    """Empty: all records."""
    from_date: Mapped[datetime | None]
    until_date: Mapped[datetime | None]
    """The upper bound: `until`, or the responseDate of the first answer if that is earlier."""
    started: Mapped[datetime]
    last_request: Mapped[datetime] = mapped_column(index=True)
    requests: Mapped[int] = mapped_column(BigInteger)
    passed: Mapped[int] = mapped_column(BigInteger)
    """Records, headers or sets up to the end of the furthest page."""
    complete_size: Mapped[int | None] = mapped_column(BigInteger)
    """Items in the whole list, if known."""
    finished: Mapped[datetime | None]
    """When its last page was sent."""
