"""What all sections of the settings have in common."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A section: it cannot be changed, and a name that it does not know is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")
