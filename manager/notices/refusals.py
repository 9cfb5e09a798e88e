"""Why something was not sent.

::

    ZatvaError
    └── NotSentError        the other side does not have it; it may be tried again
        ├── RefusedError    nor will it have it later: there is no use in trying again
        └── NoWordError     it went out, and nobody knows whether it came
"""

from typing import ClassVar

from oai.errors import ExitCode, ZatvaError


class NotSentError(ZatvaError):
    """The other side does not have it; it may be tried again."""

    exit_code: ClassVar[ExitCode] = ExitCode.REMOTE_FAILED


class RefusedError(NotSentError):
    """The other side will not have it later, either."""


class NoWordError(NotSentError):
    """It went out, and nobody knows whether it came."""
