"""Every scenario, by kind."""

from tests.harvester.hostile.scenario import Scenario
from tests.harvester.hostile.scenarios import (
    bodies,
    connections,
    encodings,
    envelopes,
    identifiers,
    lists,
    markup,
    records,
    statuses,
    tokens,
)

KINDS: dict[str, tuple[Scenario, ...]] = {
    "Encodings": encodings.SCENARIOS,
    "Markup": markup.SCENARIOS,
    "Answers that are something else": bodies.SCENARIOS,
    "HTTP statuses": statuses.SCENARIOS,
    "Connections": connections.SCENARIOS,
    "Resumption tokens": tokens.SCENARIOS,
    "Lists": lists.SCENARIOS,
    "Records": records.SCENARIOS,
    "Envelopes": envelopes.SCENARIOS,
    "Identifiers": identifiers.SCENARIOS,
}
SCENARIOS = tuple(scenario for kind in KINDS.values() for scenario in kind)
