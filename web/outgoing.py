"""Addresses that users type are fetched by this server: what it may be led to."""

from oai.settings import Settings


def guarded(settings: Settings) -> Settings:
    """The settings for everything that the dashboard asks for itself.

    Unless `web.private_addresses` allows it, its requests do not leave the public internet, whatever a name
    or a redirect leads to: nobody reads the machine's own services through the dashboard.
    """
    allowed = settings.web.private_addresses and settings.harvester.private_addresses
    harvester = settings.harvester.model_copy(update={"private_addresses": allowed})
    return settings.model_copy(update={"harvester": harvester})
