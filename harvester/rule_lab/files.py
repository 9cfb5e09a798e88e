"""Rule files below the data folder: locate, read, and write them atomically."""

import os
import re
from pathlib import Path
from typing import Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from harvester.rule_lab.models import Rule
from harvester.rules.rule_files import MAX_BYTES, RuleFileError, parse_xml, tag_of
from harvester.store.atomic_files import Disk
from harvester.vocabulary import RuleKind
from oai.errors import UsageError, ZatvaError
from oai.folding import normalised
from oai.owners import Organisation, folder_of
from oai.settings import Settings

FOLDER: Final = "rules"
"""The folder below the data folder for new rule files."""
_SLUG: Final = re.compile(r"[^a-z0-9]+")
_LONGEST_SLUG: Final = 60


def file_of(settings: Settings, rule: Rule) -> Path:
    """Return the path of the rule file."""
    return settings.data.resolve() / rule.path


def read_file(settings: Settings, rule: Rule) -> bytes | None:
    """Return the content of the file; None if it cannot be read."""
    try:
        with file_of(settings, rule).open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError:
        return None


def write_file(settings: Settings, rule: Rule, content: bytes) -> None:
    """Replace the content of the file: a reader finds the old or the new content, never a part.

    Raises UsageError if the file cannot be written.
    """
    file = file_of(settings, rule)
    if read_file(settings, rule) == content:
        return
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        disk = Disk(os.fspath(settings.data.resolve()))
        try:
            disk.write_all([(rule.path, content)])
        finally:
            disk.close()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UsageError(
            "%(file)s cannot be written: %(reason)s; the version was not saved", file=str(file), reason=reason
        ) from None


def adopted_path(session: Session, settings: Settings, path: str) -> str:
    """Return the path of an existing file that is to be registered in place.

    Raises UsageError if it is not inside the data folder, or is already registered.
    """
    root = settings.data.resolve()
    file = (root / path).resolve()
    if not file.is_relative_to(root) or file == root:
        raise UsageError("%(file)s is not in the data folder", file=path)
    inside = file.relative_to(root).as_posix()
    if session.scalar(select(Rule.rule_id).where(Rule.path == inside)) is not None:
        raise UsageError("%(file)s is already managed as a rule; see `zatva rule list`", file=inside)
    return inside


def free_path(session: Session, settings: Settings, name: str, organisation: Organisation | None) -> str:
    """Return an unused path for a new file, named after the rule, in the organisation's folder."""
    plain = normalised("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = _SLUG.sub("-", plain).strip("-")[:_LONGEST_SLUG] or "rule"
    folder = FOLDER if organisation is None else f"{FOLDER}/{folder_of(organisation.organisation_id)}"
    taken = set(session.scalars(select(Rule.path)))
    number = 1
    while True:
        path = f"{folder}/{slug}.xml" if number == 1 else f"{folder}/{slug}-{number}.xml"
        if path not in taken and not (settings.data / path).exists():
            return path
        number += 1


def kind_of(data: bytes, *, source: str) -> RuleKind:
    """Return the kind of a rule file by its root element. Raises RuleFileError if it is neither kind."""
    root = parse_xml(data, source=source)
    found = {"filters": RuleKind.FILTER, "normalize": RuleKind.NORMALISE}.get(str(root.tag))
    if found is None:
        why = ZatvaError(
            "the root element is %(tag)s; a filter file begins with <filters>, a normalise file with "
            "<normalize>",
            tag=tag_of(root),
        )
        raise RuleFileError(source, why, line=1)
    return found
