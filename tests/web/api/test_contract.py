"""The server against its own document, asked by schemathesis: no server error, nothing undocumented."""

import asyncio
import sys

import pytest
from sqlalchemy import text

from oai.rights import Role
from tests.web.api.conftest import token_of
from tests.web.conftest import Server
from web.auth.users import add_user

_CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,"
    "response_headers_conformance,negative_data_rejection,unsupported_method"
)
_SECONDS = 240
_FAR_NUMBER = 1_000_003
"""No generated request names it."""


def _token(server: Server) -> str:
    """Return a token that no request ends: generated requests do not reach its and its user's numbers."""
    with server.database.session() as session:
        for column in ("web_user ALTER user_id", "web_api_token ALTER token_id"):
            session.execute(text(f"ALTER TABLE {column} RESTART WITH {_FAR_NUMBER}"))
        add_user(session, "Anna", Role.ADMINISTRATOR)
        session.commit()
    return token_of(server, "Anna")


@pytest.mark.slow
@pytest.mark.usefixtures("one_of_each")
async def test_generated_requests_find_no_server_error_and_nothing_undocumented(
    server: Server, request: pytest.FixtureRequest
) -> None:
    # The coverage phase takes most of the time; the fuzzing of all routes sends values of its kind, too.
    long = request.config.getoption("--long")
    phases, examples = ("examples,coverage,fuzzing", "2") if long else ("examples,fuzzing", "1")
    command = (
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{server.base_url}/api/openapi.json"),
        *("--url", f"{server.base_url}/api/v1", "--header", f"Authorization: Bearer {_token(server)}"),
        *("--checks", _CHECKS, "--max-examples", examples, "--seed", "20261122", "--request-timeout", "60"),
        *("--phases", phases, "--no-color", "--continue-on-failure"),
        *("--generation-database", "none", "--suppress-health-check", "all"),
    )
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(_SECONDS):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()

    assert process.returncode == 0, output.decode()
