"""The registry of metadata formats: to add one, add a module here and an entry to this table.

Other distributions add theirs by entry points; see `provider.protocol.formats.plug_ins`.
"""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from oai.errors import SettingsError, UsageError
from provider.protocol.formats import marc21, mods, oai_dc, plug_ins, webarchive
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
    """Return the chosen formats in their order, or the built-in ones if none is chosen.

    oai_dc is always included (section 5). Plug-ins are offered only if they are chosen. Raises SettingsError
    that names an unknown format and the available ones, or what is wrong with a plug-in.
    """
    installed = plug_ins.installed()
    plug_ins.refuse_clashes(installed, FORMATS)
    wanted = list(dict.fromkeys(chosen))
    if not wanted:
        return FORMATS
    known = [*FORMATS, *installed]
    unknown = sorted({*wanted} - {*known})
    if unknown:
        raise SettingsError(
            f"setting 'provider.formats': unknown format {unknown[0]!r}; choose from {', '.join(known)}"
        )
    if oai_dc.FORMAT.prefix not in wanted:
        wanted.insert(0, oai_dc.FORMAT.prefix)
    found = registry(
        *(FORMATS[prefix] if prefix in FORMATS else plug_ins.load(installed[prefix]) for prefix in wanted)
    )
    _refuse_shared_schemas(found.values())
    return found


def _refuse_shared_schemas(formats: Iterable[Format]) -> None:
    """Raise SettingsError if two formats are to be described by different files at one address."""
    seen: dict[str, str] = {}
    for one in formats:
        if one.schema.startswith("/") and seen.setdefault(one.schema, one.prefix) != one.prefix:
            raise SettingsError(
                f"the formats {seen[one.schema]!r} and {one.prefix!r} have their own schemas at the same "
                f"address, {one.schema}; offer one of them (setting 'provider.formats')"
            )
