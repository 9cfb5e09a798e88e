"""Explanations of the fields that a newcomer cannot guess, shown behind a question mark beside them."""

from collections.abc import Mapping
from typing import Final

from web.site.i18n import _, mark

EXPLAINED: Final[Mapping[str, str]] = {
    "metadata_prefix": mark(
        "How the records are described. Every repository offers Dublin Core (oai_dc), which is short; "
        "MARC 21 and MODS keep more of a catalogue record."
    ),
    "set_spec": mark(
        "A part of the repository that it offers separately, such as one collection. Without a set, "
        "everything is harvested."
    ),
    "incremental": mark(
        "The repository is asked only for what changed since the last complete harvest. Turn this off if "
        "its datestamps are wrong, or if it never reports deletions and records disappear from it."
    ),
    "validation": mark(
        "Loose keeps what can be read, and lists the other records with the reason. Strict and very "
        "strict stop at the first faulty record, for repositories that have promised valid records."
    ),
    "method": mark(
        "Lists with whole records need the fewest requests. If the repository's lists break off, ask for "
        "the identifiers first and for each record by itself."
    ),
    "slice": mark(
        "Asks for the records of one month or day after the other, so that no list becomes too long for "
        "the repository."
    ),
    "overlap": mark("What happens when a run is due while the previous one still takes records."),
    "priority": mark("Matters only when more harvests are due than may run at a time."),
    "frequency": mark(
        "In words, or as a cron expression: minute, hour, day of the month, month, day of the week."
    ),
    "time_zone": mark("The times of the schedule follow this zone, including daylight saving time."),
    "filter_file_path": mark("Rules that decide which records are kept; the others are counted, not stored."),
    "normalize_file_path": mark("Rules that add elements to each record before it is stored."),
    "parse_id": mark("Folders by identifier keep directories small: choose them for large repositories."),
    "harvest_from": mark("Records that changed earlier are not requested; for archives that begin late."),
    "harvest_to": mark("Records that changed later are not requested, in any harvest."),
    "deletion_policy": mark(
        "What happens to the stored file when the repository reports the record as deleted, or when a "
        "complete list no longer contains it."
    ),
    "brake_deletions": mark(
        "A run that would delete a larger share of the records changes nothing and waits for your "
        "approval: usually, the repository has a fault."
    ),
    "brake_updates": mark("The same for changed records."),
    "base_dir": mark("The folder for the record files; two repositories never share one."),
    "identifiers": mark(
        "Harvesters recognise a record by its identifier. Keep it as long as you do not change records."
    ),
    "access": mark(
        "Documents that are withheld are invisible to harvesters. An embargo ends by itself on its day."
    ),
    "target": mark(
        "Who gets the message: a person's address, or the address of a service that passes it on."
    ),
}
"""By the name of the field."""


def field_help(name: str) -> str:
    """Return the explanation of a field in the reader's language; empty if its label says enough."""
    return _(EXPLAINED[name]) if name in EXPLAINED else ""
