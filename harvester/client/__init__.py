"""A stand-alone OAI-PMH client; needs no database, no manager and no files. Start with `open_client`."""

from harvester.client.repository_client import Client, Selection, open_client

__all__ = ["Client", "Selection", "open_client"]
