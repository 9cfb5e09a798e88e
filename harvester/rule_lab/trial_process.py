"""The process in which rules are tried, so that it can be killed; it writes one line per record.

Started by `trial`. Standard input holds one JSON object: the rule file, and the records as XML.
"""

import base64
import json
import os
import sys
from dataclasses import asdict
from typing import Any, Final

from lxml import etree

from harvester.rule_lab.explanation import explain, read_rules
from harvester.rules.rule_files import RuleFileError
from harvester.rules.rule_limits import RuleLimits
from harvester.vocabulary import RuleKind
from oai.errors import MalformedXmlError, Phrase
from oai.xml import parse

_SHOWN_SIDES: Final = 30
"""The number of records returned with their XML, so that a trial of thousands still fits on a page."""


def main() -> None:
    """Read the input, answer for each record, and end."""
    work = json.load(sys.stdin.buffer)
    # If the parent is gone, no process reads the answers.
    parent = os.getppid()
    limits = RuleLimits(seconds=work["seconds"])
    rules = read_rules(
        base64.b64decode(work["content"]),
        RuleKind(work["kind"]),
        source=Phrase(work["source"]),
        limits=limits,
    )
    shown: dict[str, int] = {}
    for text in work["records"]:
        if os.getppid() != parent:
            return
        try:
            explained = explain(_record(text), rules)
            trouble = explained.trouble.parts() if explained.trouble else None
            answer = {**asdict(explained), "trouble": trouble}
        except MalformedXmlError as error:
            answer = {"unreadable": str(error)}
        except RuleFileError as error:
            _write_answer({"faulty": error.parts()})
            return
        _write_answer(_slim(answer, shown))


def _record(text: str) -> etree._Element:
    return parse(text.encode(), source="record")


def _slim(answer: dict[str, Any], shown: dict[str, int]) -> dict[str, Any]:
    fate = answer.get("fate", "")
    shown[fate] = shown.get(fate, 0) + 1
    if shown[fate] > _SHOWN_SIDES and "before" in answer:
        answer.update(before="", after="", diff="")
    return answer


def _write_answer(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
