"""Identifiers that would be harmful as file names."""

from dataclasses import replace

from tests.harvester.fake_repository import Item
from tests.harvester.hostile.scenario import ITEMS, Scenario, all_of, scenario

_KINDS = (
    ("traversal", "identifiers that lead out of the folder",
        ("../../../etc/passwd", "oai:../../x", "oai:a:..", "oai:a:../..", "oai:..:..:x", "..", ".", "./x")),
    ("absolute", "identifiers that are paths of their own",
        ("/etc/passwd", "//host/share", "C:\\Windows\\x", "C:x", "\\\\host\\share", "~/x", "file:///etc/passwd")),
    ("nul", "identifiers with encoded NULs and control characters",
        ("oai:a:%00", "oai:a:%2e%2e%2fx", "oai:a:x%00.xml", "oai:a:%0A", "oai:a:%")),
    ("long", "identifiers of up to 20,000 characters",
        ("oai:a:" + "x" * 300, "oai:a:" + "y" * 5000, "z" * 20_000, "oai:" + "a:" * 500,
         "oai:a:" + "ž" * 2000)),
    ("case", "identifiers that differ in case alone",
        ("oai:a:abc", "oai:a:ABC", "oai:a:Abc", "oai:A:abc", "OAI:a:abc", "oai:a:straße", "oai:a:STRASSE")),
    ("unicode", "identifiers that differ in their Unicode form alone",
        ("oai:a:caf\u00e9", "oai:a:cafe\u0301", "oai:a:\u212b", "oai:a:\u00c5", "oai:a:ﬁ", "oai:a:fi",
         "oai:a:\u202excod", "oai:a:😀", "oai:a:\u200b")),
    ("reserved", "identifiers that are names of devices, hidden files or folders of ours",
        ("oai:a:con", "oai:a:NUL", "oai:a:aux.xml", "oai:lpt1:x", "oai:a:.hidden", "oai:a:x.", "oai:a:-rf",
         "oai:starting_at_5:x", "oai:a.xml:x", "oai:a.xml", "oai:++sha256:x", "oai:a:x~2", "oai:a:x@b")),
    ("separators", "identifiers of colons and slashes",
        ("oai:", "oai::", ":", ":::", "/", "oai:a:", "oai::a", "oai:a//b", "http://x/y?z=1&w=2#f",
         "urn:isbn:1")),
    ("blanks", "identifiers with blanks within, and signs of a shell",
        ("oai:a:b c", "oai:a:$(id)", "oai:a:`id`", "oai:a:a;b|c", "oai:a:*?", "oai:a:\"'<>", "oai:a:b  c")),
)  # fmt: skip


def _named(identifiers: tuple[str, ...]) -> list[Item]:
    """Return the known items, with these identifiers in the middle."""
    items = list(ITEMS)
    for number, identifier in enumerate(identifiers, start=5):
        items[number] = replace(items[number], identifier=identifier)
    return items


SCENARIOS: tuple[Scenario, ...] = tuple(
    scenario(f"identifiers-{name}", f"there are {about}", lambda: lambda _ask: None,
        all_of(len(ITEMS)), items=_named(identifiers))
    for name, about, identifiers in _KINDS
)  # fmt: skip
