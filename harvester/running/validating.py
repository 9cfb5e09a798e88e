"""Makes a very strict harvest's validator, with schemas that are fetched once and kept."""

from harvester.client.protocol_client import ProtocolClient
from harvester.rules.schema_cache import SchemaCache
from harvester.rules.schema_fetching import schema_fetcher
from harvester.rules.schemas import Schemas
from harvester.rules.validation import Validator, prepare_validator
from oai.settings import Settings


async def open_validator(client: ProtocolClient, settings: Settings, metadata_prefix: str) -> Validator:
    """Give the validator of a format, asking the repository for its schema where we have none of our own.

    Raises StrictCheckError where a schema cannot be had, and ClientError where the repository does not say.
    """
    schemas = Schemas(
        cache=SchemaCache(folder=settings.schemas),
        fetch=schema_fetcher(settings.harvester, client.base_url),
    )
    return await prepare_validator(metadata_prefix, client.list_metadata_formats, schemas)
