"""The kind of a document, derived from its MIME type, in the terms of each vocabulary."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True)
class DocumentKind:
    """A kind of document."""

    dcmi: str
    """DCMI Type Vocabulary."""
    mods: str
    """typeOfResource of MODS."""
    marc: str
    """Type of computer file (MARC 21, 008/26)."""


_TEXT: Final = DocumentKind(dcmi="Text", mods="text", marc="d")
_KINDS: Final[Mapping[str, DocumentKind]] = {
    "audio": DocumentKind(dcmi="Sound", mods="sound recording", marc="h"),
    "image": DocumentKind(dcmi="Image", mods="still image", marc="c"),
    "text": _TEXT,
    "video": DocumentKind(dcmi="MovingImage", mods="moving image", marc="c"),
    "application/msword": _TEXT,
    "application/pdf": _TEXT,
    "application/xhtml+xml": _TEXT,
}
"""By major or by full type."""


def kind_of(media_type: str | None) -> DocumentKind | None:
    """Return the kind for a full MIME type in lower case; None if the type does not determine it."""
    if media_type is None:
        return None
    return _KINDS.get(media_type) or _KINDS.get(media_type.partition("/")[0])
