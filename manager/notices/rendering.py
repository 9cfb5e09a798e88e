"""Notices in words: a template for each occasion and language; the first line is the subject."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from manager.notices.models import Language, Occasion
from oai.failures import Explanation, Failure, FailureCode, explained

TEMPLATES: Final = Path(__file__).parent / "templates"
_FILES: Final = {
    Occasion.FAILING: "failing.txt",
    Occasion.STILL_FAILING: "failing.txt",
    Occasion.WORKS_AGAIN: "works_again.txt",
    Occasion.ENDED: "ended.txt",
    Occasion.SUSPENDED: "trouble.txt",
    Occasion.STUCK: "trouble.txt",
    Occasion.SET_ASIDE: "trouble.txt",
    Occasion.SUMMARY: "summary.txt",
    Occasion.TEST: "test.txt",
}
_THOUSANDS: Final = {Language.ENGLISH: ",", Language.CZECH: "\u00a0", Language.SLOVAK: "\u00a0"}
_LONGEST_SUBJECT: Final = 180


@dataclass(frozen=True, kw_only=True)
class Letter:
    """A notice in words."""

    subject: str
    body: str


def render(occasion: str, language: str, facts: Mapping[str, Any], *, dashboard: str | None) -> Letter:
    """Write a notice; `dashboard` is the address of the dashboard, which the links begin with."""
    known = Language(language)
    environment = _environment(known)
    template = environment.get_template(f"{known}/{_FILES[Occasion(occasion)]}")
    text = template.render(
        facts, occasion=str(occasion), dashboard=dashboard.rstrip("/") if dashboard else None
    )
    subject, _, body = text.strip().partition("\n")
    return Letter(subject=_one_line(subject), body=_airy(body))


@cache
def _environment(language: Language) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=False,  # noqa: S701 plain text
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        number=lambda value: f"{value:,}".replace(",", _THOUSANDS[language]),
        moment=_moment,
        span=_span,
        line=_one_line,
    )
    environment.globals["explained"] = partial(_explained, language=language)
    return environment


def _explained(failure: object, *, language: Language) -> Explanation:
    """What failed, in words; a notice that an earlier version wrote has no failure in its facts."""
    found = Failure.from_json(failure) or Failure(code=FailureCode.OTHER)
    return explained(found, language)


def _moment(value: str) -> str:
    return f"{datetime.fromisoformat(value):%Y-%m-%d %H:%M} UTC"


def _span(begin: str, end: str) -> str:
    """The time between two moments: `3 d 4 h`, `4 h 12 min`, `12 min`; the signs are the same everywhere."""
    minutes = max(datetime.fromisoformat(end) - datetime.fromisoformat(begin), timedelta()) // timedelta(
        minutes=1
    )
    days, hours, minutes = minutes // 1440, minutes // 60 % 24, minutes % 60
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def _one_line(value: object) -> str:
    """Whatever comes from elsewhere cannot begin a line, nor a header, of its own."""
    words = " ".join("".join(letter if letter.isprintable() else " " for letter in str(value)).split())
    return words if len(words) <= _LONGEST_SUBJECT * 6 else f"{words[: _LONGEST_SUBJECT * 6]} …"


def _airy(body: str) -> str:
    """One empty line between paragraphs, none at either end."""
    lines: list[str] = []
    for line in body.strip().splitlines():
        if line.strip() or (lines and lines[-1]):
            lines.append(line.rstrip())
    return "\n".join(lines) + "\n"
