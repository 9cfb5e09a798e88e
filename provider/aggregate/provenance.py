"""Where a record was harvested from, told in its `about` (guidelines for provenance).

Each repository that gives a record out again wraps what the one before told, so that the chain is kept.
"""

from datetime import datetime
from typing import Final

from oai.datestamps import format_datestamp, parse_datestamp
from oai.vocabulary import XSI_NAMESPACE
from oai.xml import escape

PROVENANCE_NAMESPACE: Final = "http://www.openarchives.org/OAI/2.0/provenance"
_SCHEMA: Final = "http://www.openarchives.org/OAI/2.0/provenance.xsd"
_OPENING: Final = (
    f'<about><provenance xmlns="{PROVENANCE_NAMESPACE}" xmlns:xsi="{XSI_NAMESPACE}"'
    f' xsi:schemaLocation="{PROVENANCE_NAMESPACE} {_SCHEMA}">'
)


def provenance(
    *,
    base_url: str,
    identifier: str,
    datestamp: str,
    namespace: str,
    harvested: datetime,
    altered: bool,
    origin: str,
) -> str:
    """The `about` element; `origin` is the `originDescription` that the record was harvested with, or empty.

    `base_url`, `identifier` and `datestamp` are the source's, `namespace` is that of the metadata.
    """
    when = format_datestamp(harvested)
    return (
        f'{_OPENING}<originDescription harvestDate="{when}" altered="{"true" if altered else "false"}">'
        f"<baseURL>{escape(base_url)}</baseURL><identifier>{escape(identifier)}</identifier>"
        f"<datestamp>{_possible(datestamp) or when}</datestamp>"
        f"<metadataNamespace>{escape(namespace)}</metadataNamespace>{origin}"
        "</originDescription></provenance></about>"
    )


def _possible(datestamp: str) -> str | None:
    """The datestamp, if the schema lets it stand; sources write all kinds of things."""
    try:
        return str(parse_datestamp(datestamp))
    except ValueError:
        return None
