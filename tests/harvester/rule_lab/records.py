"""Records for trying rules."""

from typing import Final

FILTERS: Final = b"""<filters match="any">
  <selectionNamespaces>xmlns:dc='http://purl.org/dc/elements/1.1/'</selectionNamespaces>
  <filter xpath="//dc:subject" regexp="cultur" ignoreCase="true"/>
  <filter xpath="//dc:coverage" regexp="."/>
</filters>
"""

MAPPINGS: Final = b"""<normalize>
  <selectionNamespaces>xmlns:dc='http://purl.org/dc/elements/1.1/'</selectionNamespaces>
  <mapping xpath="//dc:type">
    <newElement name="dc:type" regexp="jpe?g" ignoreCase="true"><newValue>image</newValue></newElement>
    <newElement name="dc:type" regexp="never"><newValue>nothing</newValue></newElement>
  </mapping>
  <mapping xpath="//dc:type">
    <newElement name="dc:subject" regexp="^image$"><newValue>Pictures</newValue></newElement>
  </mapping>
</normalize>
"""


def a_record(number: int = 1, *, subject: str = "Cultural monuments", kind: str = "JPEG") -> bytes:
    """Return a record in Dublin Core."""
    return f"""<record xmlns="http://www.openarchives.org/OAI/2.0/"><header><identifier>oai:x:{number}</identifier>
<datestamp>2026-01-01</datestamp></header><metadata>
<oai_dc:dc xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/"
 xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Title {number}</dc:title>
<dc:subject>{subject}</dc:subject><dc:type>{kind}</dc:type></oai_dc:dc></metadata></record>""".encode()
