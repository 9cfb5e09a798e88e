"""Which of the formats that a repository was harvested in is imported: the one that tells the most."""

from pathlib import Path
from typing import Final

from sqlalchemy import text
from sqlalchemy.orm import Session

from harvester.bibliographic.candidates import read_sample
from harvester.bibliographic.converting import Converter, converter_for, converter_of_namespace
from harvester.bibliographic.sources import harvested_prefixes, source_settings
from harvester.bibliographic.stored_metadata import NoMetadataError, UnreadableFileError, read_metadata

_SAMPLE: Final = 5
_NAMESPACES = text(
    """
    SELECT metadata_namespace FROM oai_metadata_format JOIN oai_prefix_mapping USING (prefix_id)
    WHERE repository_id = :id AND metadata_prefix = :prefix
    """
)


def choose_prefix(session: Session, repository_id: int, folder: Path) -> str | None:
    """The format to import: the one that is set, else the best that a converter reads; None without any.

    Without any that a converter reads it is the first, so that its records are refused one by one.
    """
    wanted = source_settings(session, repository_id).metadata_prefix
    if wanted is not None:
        return wanted
    prefixes = harvested_prefixes(session, repository_id)
    ranked = [(_rank(_converter(session, repository_id, prefix, folder)), prefix) for prefix in prefixes]
    return min(ranked, key=lambda one: (-one[0], one[1]))[1] if ranked else None


def _rank(converter: Converter | None) -> int:
    return 0 if converter is None else converter.rank


def _converter(session: Session, repository_id: int, prefix: str, folder: Path) -> Converter | None:
    """The converter for a format, by its namespace, or by some of its records."""
    for namespace in session.scalars(_NAMESPACES, {"id": repository_id, "prefix": prefix}):
        found = converter_of_namespace(namespace)
        if found is not None:
            return found
    for candidate in read_sample(session, repository_id, prefix, most=_SAMPLE):
        try:
            found = converter_for(read_metadata(folder, candidate))
        except (UnreadableFileError, NoMetadataError):
            continue  # another one will do; the import tells what is the matter with it
        if found is not None:
            return found
    return None
