"""The text about a restored site."""

from pathlib import Path

import pytest

from harvester.restoring.outcome import RestoreOutcome


@pytest.mark.parametrize(
    ("start", "line"),
    [("index.html", "Start page: site/index.html"), ("warc", "Folder of WARC files: site/warc")],
)
def test_the_outcome_names_the_start_page(start: str, line: str) -> None:
    outcome = RestoreOutcome(
        folder=Path("site"), listed=1, wanted=1, restored=1, fetched=1, unverified=0, others=0,
        bytes=1, requests=1, seconds=1.0, start=Path("site") / start,
    )  # fmt: skip
    assert outcome.in_words().splitlines()[-1] == line
