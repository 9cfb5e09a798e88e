"""The tables of who harvests: clients, what they got and how far through which lists they are.

They have nothing in common with the archive's tables (`provider.models`), and nothing there refers to them.
"""

import uuid
from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, Text
from sqlalchemy.orm import Mapped, mapped_column

from oai.models import Base


class ProviderClient(Base):
    """A harvester that asked the provider: one address (as it is kept), program and contact."""

    __tablename__ = "provider_client"

    key: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    """From address, user agent and sender."""
    address: Mapped[str] = mapped_column(Text)
    """Whole, a network, or empty, as the settings have it."""
    user_agent: Mapped[str] = mapped_column(Text)
    """`(others)`: all beyond the number of clients that a process tells apart in a day."""
    sender: Mapped[str] = mapped_column(Text)
    """The header `From`: an e-mail address, if the client is polite."""
    first_request: Mapped[datetime]
    last_request: Mapped[datetime] = mapped_column(index=True)
    requests: Mapped[int] = mapped_column(BigInteger)
    bytes_sent: Mapped[int] = mapped_column(BigInteger)
    refused: Mapped[int] = mapped_column(BigInteger)
    """Requests that were answered with 503."""


class ProviderClientError(Base):
    """How many answers to a client told an OAI-PMH error."""

    __tablename__ = "provider_client_error"

    client_key: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("provider_client.key", ondelete="CASCADE"), primary_key=True
    )
    code: Mapped[str] = mapped_column(Text, primary_key=True)
    answers: Mapped[int] = mapped_column(BigInteger)


class ProviderList(Base):
    """A list that a harvester reads or has read: a first request, and those that go on from it."""

    __tablename__ = "provider_list"

    key: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    """From the client and the columns up to `until_date`."""
    client_key: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("provider_client.key", ondelete="CASCADE"), index=True
    )
    verb: Mapped[str] = mapped_column(Text)
    metadata_prefix: Mapped[str] = mapped_column(Text)
    set_spec: Mapped[str] = mapped_column(Text)
    """Empty: everything."""
    from_date: Mapped[datetime | None]
    until_date: Mapped[datetime | None]
    """As asked for, or the time of the first request."""
    started: Mapped[datetime]
    last_request: Mapped[datetime] = mapped_column(index=True)
    requests: Mapped[int] = mapped_column(BigInteger)
    passed: Mapped[int] = mapped_column(BigInteger)
    """Records, headers or sets up to the end of the furthest page."""
    complete_size: Mapped[int | None] = mapped_column(BigInteger)
    """Items in the whole list, where that is known."""
    finished: Mapped[datetime | None]
    """When its last page was sent."""
