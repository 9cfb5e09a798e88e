"""Reads the provider's responses in tests; each is validated by the grammar first."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from lxml import etree

from oai.vocabulary import DC_NAMESPACE, OAI_DC_NAMESPACE, OAI_NAMESPACE
from provider.protocol.formats import marc21, mods, webarchive

_GRAMMAR = Path(__file__).parent / "oai_pmh.rng"
_SCHEMAS = Path(__file__).parents[3] / "shared" / "schemas"
_OWN_SCHEMA = Path(webarchive.__file__).parents[2] / "http" / "static" / "webarchive.xsd"
_NAMES = {
    "o": OAI_NAMESPACE,
    "dc": DC_NAMESPACE,
    "marc": marc21.NAMESPACE,
    "mods": mods.NAMESPACE,
    "w": webarchive.NAMESPACE,
}


@dataclass(frozen=True, kw_only=True)
class Reply:
    """A valid answer of the provider."""

    root: etree._Element

    @property
    def codes(self) -> list[str]:
        return [str(code) for code in self._found("o:error/@code")]

    @property
    def messages(self) -> str:
        return "\n".join(self.texts("o:error"))

    @property
    def request(self) -> dict[str, str]:
        """The attributes of the request element."""
        (request,) = self.root.findall(f"{{{OAI_NAMESPACE}}}request")
        return {str(name): str(value) for name, value in request.attrib.items()}

    @property
    def response_date(self) -> str:
        return self.texts("o:responseDate")[0]

    @property
    def identifiers(self) -> list[str]:
        return self.texts("//o:header/o:identifier")

    @property
    def deleted(self) -> list[str]:
        return self.texts("//o:header[@status='deleted']/o:identifier")

    @property
    def set_specs(self) -> list[str]:
        return self.texts("//o:setSpec")

    @property
    def token(self) -> str | None:
        """The resumption token: None without the element, empty on the last page."""
        found = self.texts("//o:resumptionToken")
        return found[0] if found else None

    @property
    def token_facts(self) -> dict[str, str]:
        (token,) = self.root.iter(f"{{{OAI_NAMESPACE}}}resumptionToken")
        return {str(name): str(value) for name, value in token.attrib.items()}

    def texts(self, path: str) -> list[str]:
        return [getattr(element, "text", None) or "" for element in self._found(path)]

    def _found(self, path: str) -> list[object]:
        found = self.root.xpath(path, namespaces=_NAMES)
        assert isinstance(found, list)
        return list(found)


def read_reply(body: bytes) -> Reply:
    """Read a response, which must be valid by the grammar, and by the official schemas if available."""
    root = etree.fromstring(body)
    _grammar().assertValid(root)
    for capture in root.iter(f"{{{webarchive.NAMESPACE}}}capture"):
        _own_schema().assertValid(capture)
    official = _official_schema()
    if official is not None:
        official.assertValid(root)
        for metadata in root.iter(f"{{{OAI_DC_NAMESPACE}}}dc", f"{{{marc21.NAMESPACE}}}record"):
            official.assertValid(metadata)
    return Reply(root=root)


@cache
def _own_schema() -> etree.XMLSchema:
    return etree.XMLSchema(etree.parse(_OWN_SCHEMA))


@cache
def _grammar() -> etree.RelaxNG:
    return etree.RelaxNG(etree.parse(_GRAMMAR))


@cache
def _official_schema() -> etree.XMLSchema | None:
    if not _SCHEMAS.is_dir():
        return None
    parser = etree.XMLParser()
    parser.resolvers.add(_LocalFiles())
    imports = "".join(
        f'<import namespace="{namespace}" schemaLocation="http://local/{name}"/>'
        for namespace, name in (
            (OAI_NAMESPACE, "OAI-PMH.xsd"),
            (f"{OAI_NAMESPACE}oai_dc/", "oai_dc.xsd"),
            (f"{OAI_NAMESPACE}oai-identifier", "oai-identifier.xsd"),
            (marc21.NAMESPACE, "MARC21slim.xsd"),
        )
    )
    joined = f'<schema xmlns="http://www.w3.org/2001/XMLSchema">{imports}</schema>'
    return etree.XMLSchema(etree.fromstring(joined, parser))


class _LocalFiles(etree.Resolver):
    """Gives the schemas that others import from the web out of the folder."""

    def resolve(self, system_url: str, public_id: str, context: Any) -> Any:  # type: ignore[override]
        # The published types know neither the third argument nor the method.
        del public_id
        file = _SCHEMAS / system_url.rpartition("/")[2]
        return self.resolve_filename(str(file), context)  # type: ignore[attr-defined]
