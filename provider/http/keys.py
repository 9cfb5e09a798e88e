"""The application's typed keys that several modules share."""

from collections.abc import Mapping
from typing import Final

from aiohttp import web

from oai.database import Database
from oai.settings import Settings
from provider.protocol.formats.format import Format
from provider.protocol.replicas import Replicas

SETTINGS: Final = web.AppKey("settings", Settings)
DATABASE: Final = web.AppKey("database", Database)
"""The primary."""
REPLICAS: Final = web.AppKey("replicas", Replicas)
FORMATS: Final = web.AppKey("formats", Mapping[str, Format])
"""The formats of the archive's records, by metadataPrefix."""
BASE_URL: Final = web.AppKey("base_url", str)
"""The provider's public address."""
