"""Keys by which a look-up is gone on with: signed, and good for that look-up alone.

They hold no more than a document's or a host's number: a place may lie behind a document that the client may
not see. A key that was good for other questions could find out about such documents by trial.
"""

import hashlib
from typing import Final

from itsdangerous import BadData, URLSafeSerializer

from oai.errors import UsageError
from provider.holdings.lookup import Place, Query

PURPOSE: Final = "resume key of look-ups"
"""What the signing key is for, as `oai.signing` keeps it."""


class ResumeKeys:
    """Writes and reads keys with one signing key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def write(self, place: Place, query: Query) -> str:
        """The key of a place in this look-up: URL-safe characters."""
        text: str = self._serializer(query).dumps([place.capture, place.host, place.run])
        return text

    def read(self, key: str, query: Query) -> Place:
        """The place that a key stands for. Raises UsageError where it is none of this look-up's."""
        try:
            capture, host, run = self._serializer(query).loads(key)
        except BadData:
            raise UsageError(
                f"resumeKey {key[:100]!r} does not belong to this look-up; repeat all other "
                "arguments unchanged"
            ) from None
        return Place(capture=capture, host=host, run=run)

    def _serializer(self, query: Query) -> URLSafeSerializer:
        asked = (query.url, query.match, query.order, str(query.closest))
        return URLSafeSerializer(
            self._key,
            salt=f"{PURPOSE} {asked!r}",
            signer_kwargs={"key_derivation": "hmac", "digest_method": hashlib.sha256},
        )
