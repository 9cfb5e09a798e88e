"""The server against its own document, asked by schemathesis: no server error, nothing undocumented."""

import asyncio
import sys

import pytest

from tests.web.api.conftest import token_of
from tests.web.conftest import Server

_CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,"
    "response_headers_conformance,negative_data_rejection,unsupported_method"
)
_SECONDS = 240


_ENDING_THE_TOKEN = ("revokeToken", "changeUser", "disableUser")
"""With what these do to the caller's own account, all later requests would be refused."""


@pytest.mark.slow
@pytest.mark.usefixtures("one_of_each")
@pytest.mark.parametrize("option", ["--exclude-operation-id", "--include-operation-id"])
async def test_generated_requests_find_no_server_error_and_nothing_undocumented(
    server: Server, option: str, request: pytest.FixtureRequest
) -> None:
    # The coverage phase takes most of the time; the fuzzing of all routes sends values of its kind, too.
    long = request.config.getoption("--long")
    phases, examples = ("examples,coverage,fuzzing", "2") if long else ("examples,fuzzing", "1")
    token = token_of(server, "Alena")
    command = (
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{server.base_url}/api/openapi.json"),
        *("--url", f"{server.base_url}/api/v1", "--header", f"Authorization: Bearer {token}"),
        *("--checks", _CHECKS, "--max-examples", examples, "--seed", "20261122", "--request-timeout", "20"),
        *("--phases", phases, "--no-color", "--continue-on-failure"),
        *("--generation-database", "none", "--suppress-health-check", "all"),
        *(word for name in _ENDING_THE_TOKEN for word in (option, name)),
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
