"""Notices go to chat and push services of the settings; nowhere else, and without their secrets in errors."""

import contextlib
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from manager.notices import services
from manager.notices.letters import Letter
from manager.notices.models import Kind, Language
from manager.notices.outbox import NotSentError, RefusedError
from manager.notices.rules import RuleColumns, add_rule
from oai.database import Database
from oai.errors import UsageError
from oai.outgoing import ServiceSettings, WebhookSettings

_LETTER = Letter(subject="Sklizeň se nezdařila", body="Library of Telč: HTTP status 500")
_NEAR = WebhookSettings(private_networks=True, timeout=20)


@contextlib.asynccontextmanager
async def _push_service(status: int = 200) -> AsyncIterator[tuple[int, list[dict[str, object]]]]:
    """A server that takes what ntfy takes; its port, and what it was sent."""
    heard: list[dict[str, object]] = []

    async def take(request: web.Request) -> web.Response:
        heard.append({"path": request.path, **await request.json()})
        return web.json_response({"code": status * 100, "error": "no"}, status=status)

    app = web.Application()
    app.router.add_post("/{topic:.*}", take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield runner.addresses[0][1], heard
    await runner.cleanup()


def _service(url: str) -> list[ServiceSettings]:
    return [ServiceSettings(name="night-shift", url=url)]


async def test_a_notice_is_posted_in_the_format_of_the_service() -> None:
    async with _push_service() as (port, heard):
        await services.send("night-shift", _LETTER, _service(f"ntfy://127.0.0.1:{port}/archive"), _NEAR)
    assert len(heard) == 1
    assert (heard[0]["topic"], heard[0]["title"]) == ("archive", _LETTER.subject)
    assert "HTTP status 500" in str(heard[0]["message"])


async def test_a_refusal_is_reported_without_the_secret() -> None:
    async with _push_service(401) as (port, _heard):
        address = f"ntfy://watchman:s3cret-pass@127.0.0.1:{port}/archive"
        with pytest.raises(NotSentError) as raised:
            await services.send("night-shift", _LETTER, _service(address), _NEAR)
    assert "night-shift" in str(raised.value)
    assert "s3cret" not in str(raised.value)
    assert not isinstance(raised.value, RefusedError)


async def test_a_service_in_a_private_network_is_not_called_unless_allowed() -> None:
    async with _push_service() as (port, heard):
        public = _NEAR.model_copy(update={"private_networks": False})
        with pytest.raises(NotSentError):
            await services.send("night-shift", _LETTER, _service(f"ntfy://127.0.0.1:{port}/archive"), public)
    assert heard == []


@pytest.mark.parametrize(
    "address", ["exec://touch%20/tmp/x", "file:///tmp/x", "syslog://", "mailto://a@b.cz", "s3cret-token"]
)
async def test_addresses_of_other_kinds_of_services_are_refused(address: str) -> None:
    with pytest.raises(RefusedError, match="is not of a service that Zatva uses") as raised:
        await services.send("night-shift", _LETTER, _service(address), _NEAR)
    assert address not in str(raised.value)


async def test_a_service_that_was_removed_is_reported() -> None:
    with pytest.raises(RefusedError, match="no service named"):
        await services.send("gone", _LETTER, [], _NEAR)


def test_a_rule_can_name_only_a_service_that_the_caller_may_use(database: Database) -> None:
    wanted = RuleColumns(kind=Kind.ERROR, language=Language.CZECH, service="night-shift")
    with database.session() as session:
        rule = add_rule(session, wanted, WebhookSettings(), services=["night-shift"])
        assert (rule.channel, rule.target, rule.signing_key) == ("service", "night-shift", None)
        with pytest.raises(UsageError, match="there is no service 'night-shift'"):
            add_rule(session, wanted, WebhookSettings())
