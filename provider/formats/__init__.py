"""The registry of metadata formats: a further one is a module here and an entry in this table."""

from collections.abc import Mapping
from types import MappingProxyType

from provider.formats import oai_dc
from provider.formats.format import Format

FORMATS: Mapping[str, Format] = MappingProxyType({format_.prefix: format_ for format_ in (oai_dc.FORMAT,)})
"""By metadataPrefix. Every item can be had in each of them."""
