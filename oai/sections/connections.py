"""The settings of connections, which provider and dashboard have alike, each with its own defaults."""

from typing import Annotated

from pydantic import Field

BodySeconds = Annotated[float, Field(gt=0, le=3600, description="How long a client may take to send a form.")]
IdleSeconds = Annotated[
    float,
    Field(
        gt=0,
        le=3600,
        description="How long a connection may be without a whole request; longer than a proxy keeps it.",
    ),
]
OpenConnections = Annotated[
    int,
    Field(
        ge=16,
        le=1_000_000,
        description="Open connections of one process; when more come, those idle longest are closed.",
    ),
]
ConnectionsPerAddress = Annotated[
    int,
    Field(
        ge=0,
        le=1_000_000,
        description="Open connections of one client address other than a trusted proxy, at most half of all;"
        " 0: no limit.",
    ),
]
SlowSeconds = Annotated[
    float,
    Field(gt=0, le=3600, description="How long a client may read more slowly than `slow_rate`."),
]
SlowRate = Annotated[
    int, Field(ge=0, description="Bytes per second; a client that reads more slowly is cut off.")
]
