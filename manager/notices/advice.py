"""What went wrong with a harvest, by kind, and in each language the words for it and for what to do.

Letters and pages have their words from here: `templates/*/failures.toml`, a table for each kind.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from manager.notices.models import Language

TEMPLATES: Final = Path(__file__).parent / "templates"

_REQUEST = re.compile(r"https?://[^\s'\"]+")

_SIGNS: Final = (
    ("released", r"^held: .*; released \d{4}-"),
    # Its server refuses connections, too, and runs out of disk.
    ("database", r"^database( \S+)?: |\bpsycopg\b"),
    ("held", r"\bwould (delete|change)|\bheld\b"),
    ("missing", r"announced did not come|\ba list ended\b|does not say how many records"),
    ("private", r"public internet|private_addresses"),
    ("name", r"\bdns\b|name or service|getaddrinfo|no address|not known|cannot be resolved"),
    ("refused", r"refused|no route|unreachable"),
    ("certificate", r"\btls\b|\bssl\b|certificate"),
    ("timeout", r"timed? ?out|timeout|no answer (with)?in|slowly"),
    ("gone", r"HTTP status (404|410)"),
    ("forbidden", r"HTTP status (401|403)"),
    ("busy", r"HTTP status (429|503)|come back|Retry-After"),
    ("server", r"HTTP status 5\d\d"),
    ("redirect", r"\bredirect"),
    ("http", r"HTTP status \d"),
    ("large", r"answer is larger than"),
    ("format", r"cannotDisseminateFormat|noMetadataFormats|diagnostic 66\b|format: .* cannot be had"),
    ("set", r"noSetHierarchy"),
    ("argument", r"badArgument|badVerb|\bdiagnostic \d"),
    ("token", r"badResumptionToken|resumption ?token|in circles"),
    ("not oai", r"not OAI-PMH|Is this the base URL"),
    ("disconnected", r"connection (broke|was closed)|broke off"),
    ("invalid", r"\bis not valid\b"),
    ("broken", r"well-formed|not XML|encoding|truncated|breaks the answers"),
    ("rules", r"filter|normali[sz]e"),
    ("disk", r"no space left|disk is full|disk quota|read-only file system"),
    ("process", r"ended by signal|exit code|could not be started|is gone"),
    ("running", r"is being harvested"),
    ("interrupted", r"^interrupted\b"),
    ("fault", r"^\w+(Error|Exception): "),
)
KINDS: Final = (*(kind for kind, _ in _SIGNS), "records", "plan", "other")
"""All kinds; `plan` is a schedule or a job that makes no sense as it is written."""
_PATTERNS = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _SIGNS)


@dataclass(frozen=True, kw_only=True)
class Words:
    """A kind of failure in words that need no knowledge of computers."""

    what: str
    todo: str


def words_of(kind: str, language: str) -> Words:
    """The words for a kind; those of `other` where there is none of that name."""
    known = _all_words(Language(language))
    return known.get(kind, known["other"])


@cache
def _all_words(language: Language) -> Mapping[str, Words]:
    text = (TEMPLATES / language / "failures.toml").read_text(encoding="utf-8")
    return {kind: Words(**words) for kind, words in tomllib.loads(text).items()}


def kind_of_failure(status: str, reason: str | None) -> str:
    """The kind of a failure, by its status and reason; `other` where nothing is known."""
    if status == "lost":
        return "process"
    if status == "held":
        return "released" if re.search(r"; released \d{4}-", reason or "") else "held"
    without_address = _REQUEST.sub("", reason or "")
    found = next((kind for kind, pattern in _PATTERNS if pattern.search(without_address)), "other")
    if status == "completed with errors" and found != "missing":
        return "records"
    return found


def request_in(reason: str | None) -> str | None:
    """The request that a reason names, as our messages do: the address, and a colon."""
    found = _REQUEST.search(reason or "")
    return found[0].rstrip(":;,.)") if found else None
