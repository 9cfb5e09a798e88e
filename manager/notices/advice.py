"""What went wrong with a harvest, by kind: its words are found by it, and so is what to do."""

import re
from typing import Final

_REQUEST = re.compile(r"https?://[^\s'\"]+")

_SIGNS: Final = (
    ("held", r"\bwould (delete|change)|\bheld\b"),
    ("name", r"\bdns\b|name or service|getaddrinfo|no address|not known|cannot be resolved"),
    ("refused", r"refused|no route|unreachable"),
    ("certificate", r"\btls\b|\bssl\b|certificate"),
    ("timeout", r"timed? ?out|timeout|no answer in|slowly"),
    ("gone", r"HTTP status (404|410)"),
    ("forbidden", r"HTTP status (401|403)"),
    ("busy", r"HTTP status (429|503)|come back|Retry-After"),
    ("server", r"HTTP status 5\d\d"),
    ("format", r"cannotDisseminateFormat|noMetadataFormats"),
    ("set", r"noSetHierarchy"),
    ("argument", r"badArgument|badVerb"),
    ("token", r"badResumptionToken|resumption ?token|in circles"),
    ("not oai", r"not OAI-PMH|Is this the base URL"),
    ("broken", r"well-formed|not XML|encoding|truncated|broke off"),
    ("rules", r"filter|normali[sz]e"),
    ("disk", r"no space left|disk is full|disk quota|read-only file system"),
    ("process", r"ended by signal|exit code|could not be started|is gone"),
)
_PATTERNS = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _SIGNS)


def kind_of_failure(status: str, reason: str | None) -> str:
    """The kind of a failure, by its status and reason; `other` where nothing is known."""
    if status in {"held", "lost"}:
        return {"held": "held", "lost": "process"}[status]
    if status == "completed with errors":
        return "records"
    without_address = _REQUEST.sub("", reason or "")
    return next((kind for kind, pattern in _PATTERNS if pattern.search(without_address)), "other")


def request_in(reason: str | None) -> str | None:
    """The request that a reason names, as our messages do: the address, and a colon."""
    found = _REQUEST.search(reason or "")
    return found[0].rstrip(":;,.)") if found else None
