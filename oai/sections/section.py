"""What all sections of the settings have in common."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class Section(BaseModel):
    """A section: it cannot be changed, and a name that it does not know is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


BodySeconds = Annotated[
    float, Field(gt=0, le=3600, description="Seconds that a client may take to send a form.")
]
IdleSeconds = Annotated[
    float,
    Field(
        gt=0,
        le=3600,
        description="Seconds that a connection may be open without a complete request; set it longer than "
        "the proxy's keep-alive.",
    ),
]
OpenConnections = Annotated[
    int,
    Field(
        ge=16,
        le=1_000_000,
        description="Maximum open connections of one process; above it, the connections that have been idle "
        "longest are closed.",
    ),
]
ConnectionsPerAddress = Annotated[
    int,
    Field(
        ge=0,
        le=1_000_000,
        description="Maximum open connections from one client address other than a trusted proxy, at most "
        "half of all; 0: no limit.",
    ),
]
SlowSeconds = Annotated[
    float,
    Field(gt=0, le=3600, description="Seconds that a client may read more slowly than `slow_rate`."),
]
SlowRate = Annotated[int, Field(ge=0, description="Bytes per second; slower clients are disconnected.")]
