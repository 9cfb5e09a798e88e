"""`zatva provider serve`: the provider in one process, or in several that share a port."""

import asyncio
import contextlib
import logging
import os
import re
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Final, NoReturn

from aiohttp import web

import oai.serving
from oai.cli import Invocation, write_error
from oai.connections import CONNECTIONS
from oai.database import open_database, open_replica
from oai.error_translation import as_zatva_error
from oai.errors import ExitCode, UsageError, ZatvaError
from oai.serving import address, open_listener, own_address, serving, stop_signal
from oai.settings import Settings
from provider.app import create_app
from provider.holdings.url_key_state import settle_rule, warn_if_incomplete
from provider.holdings.urlkeys import WwwRule
from provider.http.endpoint import PATH
from provider.indexing.first_load import refuse_unserved

Announce = Callable[[], None]
Work = Callable[[Announce, int, int], None]
"""A child's work: announce that it is ready, and end on SIGTERM or when the pipe ends.

Its arguments are the announcing function, the pipe and its number, from 0, which its replacement
inherits.
"""

_PAUSE_SECONDS: Final = 1.0

_log = logging.getLogger("provider.processes")
_LONGEST_LINE: Final = 64 * 1024
_STOP_SECONDS: Final = 40.0
_MERCY_SECONDS: Final = 5.0
_WEB_ADDRESS: Final = re.compile(r"https?://\S+")


def run_processes(count: int, work: Work, *, announce: Announce) -> ExitCode:
    """Run `count` processes until SIGTERM or SIGINT; one that ends by itself is replaced.

    The parent must have no threads and no open database, because the children are forked from it. If a
    child ends before it is ready, all are ended and its exit code is returned.
    """
    family = _Family(work)
    try:
        for number in range(count):
            code = family.start(number)
            if code is not None:
                return code
        announce()
        return family.keep()
    except KeyboardInterrupt:
        return ExitCode.DONE
    finally:
        family.end()


class _Family:
    def __init__(self, work: Work) -> None:
        self._work = work
        self._children: dict[int, int] = {}
        self._lifeline, self._held = os.pipe()

    def start(self, number: int) -> ExitCode | None:
        """Start a child and wait until it is ready; return its exit code if it ends instead."""
        ready, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(ready)
            os.close(self._held)
            self._be_child(writing, number)
        os.close(writing)
        self._children[pid] = number
        try:
            if os.read(ready, 1):
                return None
        finally:
            os.close(ready)
        _, status = os.waitpid(pid, 0)
        del self._children[pid]
        return _exit_code(status)

    def keep(self) -> ExitCode:
        """Replace children that end, indefinitely; return the exit code of one that cannot be replaced."""
        while True:
            pid, status = os.wait()
            number = self._children.pop(pid)
            _log.warning(
                "server process %d ended with %d; starting another one",
                pid,
                os.waitstatus_to_exitcode(status),
            )
            # A child that always fails immediately must not keep the machine busy.
            time.sleep(_PAUSE_SECONDS)
            code = self.start(number)
            if code is not None:
                return code

    def end(self) -> None:
        """Send all children SIGTERM, and wait for them."""
        for pid in self._children:
            os.kill(pid, signal.SIGTERM)
        while self._children:
            self._children.pop(os.wait()[0])
        os.close(self._held)
        os.close(self._lifeline)

    def _be_child(self, writing: int, number: int) -> NoReturn:
        """Do the work and exit without running the parent's cleanup."""
        code: int = ExitCode.FAULT
        try:
            self._work(lambda: _report_ready(writing), self._lifeline, number)
            code = ExitCode.DONE
        except KeyboardInterrupt:
            code = ExitCode.INTERRUPTED
        except ZatvaError as error:
            write_error(f"zatva: {error}")
            code = error.exit_code
        except BaseException:  # noqa: BLE001 no exception may reach the parent's code
            traceback.print_exc()
        finally:
            with contextlib.suppress(OSError):
                sys.stderr.flush()
            os._exit(code)


def _report_ready(pipe: int) -> None:
    os.write(pipe, b"1")
    os.close(pipe)


def _exit_code(status: int) -> ExitCode:
    code = os.waitstatus_to_exitcode(status)
    return ExitCode(code) if code in set(ExitCode) else ExitCode.FAULT


def serve(invocation: Invocation) -> ExitCode:
    """Serve until SIGTERM or SIGINT; open responses are finished first."""
    arguments, settings = invocation.arguments, invocation.settings
    given = _checked_base_url(arguments.base_url or settings.provider.base_url)
    # Exclusive at first, even for several processes: otherwise another program could share the port.
    listener = open_listener(arguments.host, arguments.port)
    port = listener.getsockname()[1]
    at = f"{address(listener)}{PATH}"
    base_url = given or f"{own_address(listener)}{PATH}"

    def announce() -> None:
        invocation.console.note(f"provider at {at}")

    if arguments.processes == 1:
        _serve(settings, listener, base_url, announce=announce)
        return ExitCode.DONE

    listener.close()
    reserved = open_listener(arguments.host, port, shared=True)

    def work(announce: Announce, parent: int, number: int) -> None:
        listener = open_listener(arguments.host, port, shared=True)
        try:
            _serve(_numbered(settings, number), listener, base_url, announce=announce, parent=parent)
        except Exception as error:
            known = as_zatva_error(error, settings)
            if known is None:
                raise
            raise known from error

    with reserved:
        return run_processes(arguments.processes, work, announce=announce)


def create_runner(app: web.Application) -> web.AppRunner:
    """Return a runner for the provider's application.

    A request is cancelled when its client disconnects, URLs may be as long as forms, and open responses
    are finished at shutdown.
    """
    return oai.serving.create_runner(
        app,
        log="provider.http",
        stop_seconds=_STOP_SECONDS,
        longest_line=_LONGEST_LINE,
        handler_cancellation=True,
    )


def _checked_base_url(text: str | None) -> str | None:
    if text and not _WEB_ADDRESS.fullmatch(text):
        raise UsageError(f"base URL {text!r}: write it as http://host/path or https://host/path")
    return text


def _numbered(settings: Settings, number: int) -> Settings:
    """Return the settings of one of several processes: each has its own port for metrics."""
    port = settings.provider.metrics_port
    if not port:
        return settings
    own = settings.provider.model_copy(update={"metrics_port": port + number})
    return settings.model_copy(update={"provider": own})


def _serve(
    settings: Settings,
    listener: socket.socket,
    base_url: str,
    *,
    announce: Announce,
    parent: int | None = None,
) -> None:
    provider = settings.provider
    # One more connection than there are threads looks at the servers.
    size, seconds = provider.threads + bool(provider.replica_urls), provider.statement_seconds
    with (
        listener,
        open_database(settings, pool_size=size, statement_seconds=seconds) as database,
        contextlib.ExitStack() as opened,
    ):
        with database.session() as session:
            refuse_unserved(session)
            settle_rule(session, WwwRule(provider.www_rule))
            warn_if_incomplete(session)
        replicas = [
            opened.enter_context(
                open_replica(url.get_secret_value(), pool_size=size, statement_seconds=seconds)
            )
            for url in provider.replica_urls
        ]
        app = create_app(settings, database, base_url=base_url, replicas=replicas)
        asyncio.run(_until_stopped(app, listener, announce, parent))


async def _until_stopped(
    app: web.Application, listener: socket.socket, announce: Announce, parent: int | None
) -> None:
    async with serving(create_runner(app), listener):
        stop = stop_signal(parent)
        announce()
        await stop.wait()
        _end_at_last()
        latest = asyncio.get_running_loop().time() + _STOP_SECONDS
    # The parts of finished responses that clients have not read are in memory, and would be lost with this
    # process.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout_at(latest):
            await app[CONNECTIONS].slowness.all_taken()


def _end_at_last() -> None:
    """End the process even if a statement does not finish; no unsaved data is lost by this."""
    timer = threading.Timer(_STOP_SECONDS + _MERCY_SECONDS, os._exit, [ExitCode.FAULT])
    timer.daemon = True
    timer.start()
