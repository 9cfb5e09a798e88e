"""Answers with status 200 that are not OAI-PMH: HTML, empty bodies, other formats."""

from tests.harvester.hostile.faults import at_page, first_times, holding, to_verb, whole
from tests.harvester.hostile.scenario import (
    POISON,
    WHOLE,
    Scenario,
    one_lost,
    remote_failed,
    scenario,
    stopped,
)
from tests.harvester.hostile.server import Reply

_HTML = Reply(
    body=b"<!DOCTYPE html><html><body><h1>Site under maintenance</h1></body></html>",
    headers=[("Content-Type", "text/html")],
)
_RSS = Reply(body=b'<?xml version="1.0"?><rss version="2.0"><channel/></rss>')
_JSON = Reply(body=b'{"error": "database"}', headers=[("Content-Type", "application/json")])
_BODIES = (
    ("html", "an HTML page", _HTML),
    ("empty-body", "nothing", Reply()),
    ("blank-body", "blanks alone", Reply(body=b" \r\n\t \n")),
    ("other-xml", "RSS", _RSS),
    ("json", "JSON", _JSON),
    ("plain-text", "a line of text", Reply(body=b"Fatal error: Out of memory in oai.php on line 3")),
)

SCENARIOS: tuple[Scenario, ...] = (
    *(
        scenario(f"{name}-everywhere", f"every answer is {about}",
            lambda reply=reply: whole(reply), remote_failed(0))  # type: ignore[misc]
        for name, about, reply in _BODIES
    ),
    *(
        scenario(f"{name}-once", f"one page is {about} the first time",
            lambda reply=reply: at_page(10, first_times(1, whole(reply))), WHOLE)  # type: ignore[misc]
        for name, about, reply in _BODIES[:2]
    ),
    *(
        one_lost(f"{name}-for-record", f"every answer that would hold one record is {about}",
            lambda reply=reply: holding(POISON, whole(reply)))  # type: ignore[misc]
        for name, about, reply in _BODIES[:3]
    ),
    scenario("html-for-page", "the list's second page is an HTML page, however it is asked for",
        lambda: at_page(10, whole(_HTML)), WHOLE, stopped(10), notable=True),
    scenario("html-for-identify", "Identify is answered by an HTML page, lists are good",
        lambda: to_verb("Identify", whole(_HTML)), WHOLE, remote_failed(0), notable=True),
)  # fmt: skip
