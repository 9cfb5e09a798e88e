"""Signing keys: replaced after a leak without invalidating the tokens of running harvests."""

import json
from datetime import timedelta

import pytest
from sqlalchemy import select, text

from oai.audit import AuditEntry
from oai.database import Database
from oai.models import SigningKey
from oai.signing import REREAD_SECONDS, UNKNOWN_SECONDS, KeyRing, replace_keys, signing_keys
from tests.commands import results, zatva

_PURPOSE = "resumption token"


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_former_keys_are_accepted_for_the_overlap_only(database: Database) -> None:
    with database.session() as session:
        (first,) = signing_keys(session, _PURPOSE)
        replace_keys(session, overlap=timedelta(hours=1))
        session.commit()
        second, *former = signing_keys(session, _PURPOSE)
        assert (second != first, former) == (True, [first])

        replace_keys(session, overlap=timedelta(hours=5))
        session.commit()
        third, *former = signing_keys(session, _PURPOSE)
        assert former == [second, first]
        assert third not in {first, second}

        session.execute(text("UPDATE signing_key_former SET until = now() - interval '1 s' WHERE key = :key"),
                        {"key": first})  # fmt: skip
        assert signing_keys(session, _PURPOSE) == [third, second]

        replace_keys(session, overlap=timedelta(0))
        session.commit()
        assert len(signing_keys(session, _PURPOSE)) == 1


def test_running_servers_use_a_new_key_within_a_minute(database: Database) -> None:
    clock = _Clock()
    ring = KeyRing(database, _PURPOSE, clock=clock)
    (first,) = ring.keys()
    with database.session() as session:
        replace_keys(session, overlap=timedelta(hours=1))
        session.commit()
    assert list(ring.keys()) == [first], "no query for each request"
    clock.now = UNKNOWN_SECONDS
    assert len(ring.keys()) == 1
    assert len(ring.keys(seconds=UNKNOWN_SECONDS)) == 2, "a signature of none of the keys"
    with database.session() as session:
        replace_keys(session, overlap=timedelta(hours=1))
        session.commit()
    clock.now += REREAD_SECONDS
    assert len(ring.keys()) == 3
    assert ring.keys()[-1] == first


@pytest.mark.parametrize(
    ("words", "hours"),
    [((), 48), (("--overlap-hours", "3"), 3), (("--now",), 0)],
    ids=["default", "3", "now"],
)
def test_the_command_replaces_all_keys_and_is_audited(
    database: Database, environment: dict[str, str], words: tuple[str, ...], hours: int
) -> None:
    with database.session() as session:
        before = {signing_keys(session, _PURPOSE)[0], signing_keys(session, "another")[0]}
    assert results(environment, "keys", "rotate", *words) == [{"replaced": 2, "overlap_hours": hours}]
    with database.session() as session:
        present = set(session.scalars(select(SigningKey.key)))
        assert len(present) == 2
        assert not present & before
        entry = session.scalars(select(AuditEntry)).one()
        assert (entry.action, entry.via) == ("keys.rotate", "command")
    listed = results(environment, "keys", "list")
    assert [row["until"] is None for row in listed] == ([True, False] * 2 if hours else [True, True])
    assert not any(key.hex() in json.dumps(listed) for key in before | present)


def test_an_overlap_outside_the_limits_is_refused(environment: dict[str, str]) -> None:
    for hours in ("0", "-1", "1.5", "10001", "ten"):
        refused = zatva(environment, "keys", "rotate", f"--overlap-hours={hours}")
        assert refused.returncode == 2
        assert "use 1 to 10000 hours, or --now" in refused.stderr
