"""One request and all that it is answered from."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from oai.settings import ProviderSettings
from provider.requests import Request
from provider.tokens import Tokens


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """What a verb's handler is given."""

    session: Session
    settings: ProviderSettings
    base_url: str
    moment: datetime
    """The answer's responseDate, UTC; what is dated later is not there yet."""
    tokens: Tokens
    request: Request
