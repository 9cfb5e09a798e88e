"""Options override settings for one run."""

from argparse import Namespace

import pytest

from harvester.cli.harvest import overridden
from harvester.cli.harvest_parser import build_process_parser
from oai.errors import UsageError
from oai.settings import Settings

_OPTIONS = ("timeout", "retries", "delay", "max_wait", "user_agent", "keep_raw")


def _given(**options: object) -> Namespace:
    return Namespace(**dict.fromkeys(_OPTIONS) | options)


def test_given_options_override_settings_and_the_others_stay() -> None:
    settings = Settings()
    changed = overridden(
        settings, _given(timeout=7.5, retries=0, delay=2.0, user_agent="Mine", keep_raw=True)
    )
    ours = changed.harvester
    assert (ours.timeout, ours.retries, ours.delay, ours.user_agent, ours.keep_raw) == (
        7.5,
        0,
        2,
        "Mine",
        True,
    )
    assert ours.max_wait == settings.harvester.max_wait
    assert changed.provider == settings.provider
    assert settings.harvester.retries == 5


def test_without_options_the_settings_are_the_same() -> None:
    settings = Settings()
    assert overridden(settings, _given()) is settings
    assert overridden(settings, Namespace()) is settings


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("timeout", 0),
        ("retries", -1),
        ("delay", -1),
        ("max_wait", -1),
        ("user_agent", ""),
        ("user_agent", "a\nb"),
        ("timeout", float("nan")),
    ],
)
def test_a_value_out_of_range_is_reported_with_its_option(option: str, value: object) -> None:
    with pytest.raises(UsageError, match=f"^--{option.replace('_', '-')}: ") as refused:
        overridden(Settings(), _given(**{option: value}))
    assert "Input" not in str(refused.value)


def test_the_harvest_process_accepts_the_options_of_the_client_and_of_the_run() -> None:
    words = "--repository-id 1 --timeout 3 --retries 2 --delay 1 --max-wait 9 --user-agent Me --keep-raw"
    arguments = build_process_parser().parse_args([*words.split(), "--slice", "month"])
    ours = overridden(Settings(), arguments).harvester
    assert (ours.timeout, ours.retries, ours.delay, ours.max_wait) == (3, 2, 1, 9)
    assert (ours.user_agent, ours.keep_raw, arguments.slice) == ("Me", True, "month")
