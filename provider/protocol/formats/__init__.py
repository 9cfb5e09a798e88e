"""The registry of metadata formats: to add one, add a module here and an entry to this table."""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from oai.errors import SettingsError, UsageError
from provider.protocol.formats import marc21, mods, oai_dc, webarchive
from provider.protocol.formats.format import Format

_PREFIX = re.compile(r"[A-Za-z0-9\-_.!~*'()]+")


def registry(*formats: Format) -> Mapping[str, Format]:
    """Return formats by metadataPrefix, in this order.

    Raises UsageError for a prefix that OAI-PMH does not allow (section 3.4) or that is used twice.
    """
    found: dict[str, Format] = {}
    for format_ in formats:
        if not _PREFIX.fullmatch(format_.prefix):
            raise UsageError(
                f"metadataPrefix {format_.prefix!r}: use only letters, digits and - _ . ! ~ * ' ( )"
            )
        if format_.prefix in found:
            raise UsageError(
                f"metadataPrefix {format_.prefix!r} is used twice; give each format its own prefix"
            )
        found[format_.prefix] = format_
    return MappingProxyType(found)


FORMATS: Mapping[str, Format] = registry(oai_dc.FORMAT, marc21.FORMAT, mods.FORMAT, webarchive.FORMAT)
"""By metadataPrefix. Every item is available in each of them."""


def offered_formats(chosen: Iterable[str]) -> Mapping[str, Format]:
    """Return the chosen formats, or all if none is chosen; oai_dc is always included (section 5).

    Raises SettingsError that names the unknown format and the available ones.
    """
    wanted = {*chosen}
    unknown = sorted(wanted - FORMATS.keys())
    if unknown:
        raise SettingsError(
            f"setting 'provider.formats': unknown format {unknown[0]!r}; choose from {', '.join(FORMATS)}"
        )
    if not wanted:
        return FORMATS
    return registry(*(FORMATS[prefix] for prefix in FORMATS if prefix in wanted | {oai_dc.FORMAT.prefix}))
