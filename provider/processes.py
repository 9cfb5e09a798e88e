"""Several processes doing the same work under one parent that starts, replaces and ends them.

Each child holds the reading end of a pipe whose writing end the parent alone has: however the parent ends,
the kernel closes it, and the children see it.
"""

import logging
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Final, NoReturn

from oai.errors import ExitCode, ZatvaError

Announce = Callable[[], None]
Work = Callable[[Announce, int, int], None]
"""What a child does: announce itself when it is ready, and end on SIGTERM or when the pipe ends.

It is given the announcing, the pipe and its number: 0 and up, which the one that replaces it takes over.
"""

_PAUSE_SECONDS: Final = 1.0

_log = logging.getLogger(__name__)


def run_processes(count: int, work: Work, *, announce: Announce) -> ExitCode:
    """Run `count` processes until SIGTERM or SIGINT; one that ends by itself is replaced.

    The parent must have no threads and no open database, for the children are forked from it. When a child
    ends before it is ready, all are ended and its exit code is given.
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
        """Start a child and wait until it is ready; gives its exit code if it ends instead."""
        ready, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(ready)
            os.close(self._held)
            self._be_child(tell, number)
        os.close(tell)
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
        """Replace children that end, for ever; gives the exit code of one that cannot be replaced."""
        while True:
            pid, status = os.wait()
            number = self._children.pop(pid)
            _log.warning(
                "server process %d ended with %d; starting another one",
                pid,
                os.waitstatus_to_exitcode(status),
            )
            # A child that always ends at once must not keep the machine busy.
            time.sleep(_PAUSE_SECONDS)
            code = self.start(number)
            if code is not None:
                return code

    def end(self) -> None:
        """End all children as SIGTERM does, and wait for them."""
        for pid in self._children:
            os.kill(pid, signal.SIGTERM)
        while self._children:
            self._children.pop(os.wait()[0])
        os.close(self._held)
        os.close(self._lifeline)

    def _be_child(self, tell: int, number: int) -> NoReturn:
        """Do the work and end, past everything that the parent would do at its end."""
        code: int = ExitCode.FAULT
        try:
            self._work(lambda: _tell(tell), self._lifeline, number)
            code = ExitCode.DONE
        except KeyboardInterrupt:
            code = ExitCode.INTERRUPTED
        except ZatvaError as error:
            sys.stderr.write(f"zatva: {error}\n")
            code = error.exit_code
        except BaseException:  # noqa: BLE001 nothing may get past here into the parent's code
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)


def _tell(pipe: int) -> None:
    os.write(pipe, b"1")
    os.close(pipe)


def _exit_code(status: int) -> ExitCode:
    code = os.waitstatus_to_exitcode(status)
    return ExitCode(code) if code in set(ExitCode) else ExitCode.FAULT
