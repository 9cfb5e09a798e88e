"""What checks are made on: walks over lists, formats and sets; and the reasons for leaving a check out."""

from dataclasses import dataclass

from lxml import etree

from oai.errors import ZatvaError
from provider.checking.replies import OAI, Header, Record, Reply


class CannotBeDoneError(ZatvaError):
    """What a check needs could not be learnt from the provider."""


class NotApplicableError(ZatvaError):
    """The provider has nothing that the check could be made on, and need not have."""


@dataclass(frozen=True, kw_only=True)
class Walk:
    """Some pages of a list, from its beginning."""

    pages: tuple[Reply, ...]
    ended: bool
    """Whether the last of them is the list's last."""

    @property
    def headers(self) -> list[Header]:
        """The headers on all the pages."""
        return [header for page in self.pages for header in page.headers]

    @property
    def records(self) -> list[Record]:
        """The records on all the pages."""
        return [record for page in self.pages for record in page.records]

    @property
    def identifiers(self) -> list[str]:
        """The identifiers on all the pages, as often as they come."""
        return [header.identifier for header in self.headers]

    def described(self) -> str:
        """How much of the list this is, in words."""
        return (
            f"{len(self.headers):,} items on {len(self.pages)} pages{'' if self.ended else ', more follow'}"
        )


@dataclass(frozen=True, kw_only=True)
class OfferedFormat:
    """A format as ListMetadataFormats tells it."""

    prefix: str
    schema: str
    namespace: str


@dataclass(frozen=True, kw_only=True)
class OfferedSet:
    """A set as ListSets tells it."""

    set_spec: str
    name: str


def offered_format(element: etree._Element) -> OfferedFormat:
    """Read a `metadataFormat` element."""

    def said(name: str) -> str:
        return (element.findtext(f"{OAI}{name}") or "").strip()

    return OfferedFormat(
        prefix=said("metadataPrefix"), schema=said("schema"), namespace=said("metadataNamespace")
    )


def offered_set(element: etree._Element) -> OfferedSet:
    """Read a `set` element."""
    return OfferedSet(
        set_spec=(element.findtext(f"{OAI}setSpec") or "").strip(),
        name=(element.findtext(f"{OAI}setName") or "").strip(),
    )
