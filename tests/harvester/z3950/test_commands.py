"""The input of `yaz-client`, and how its output is read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harvester.z3950.session import (
    LONGEST_QUERY,
    Z3950Error,
    is_passing,
    read_address,
    read_output,
    searching,
)
from oai.errors import UsageError

SESSION = """Z> Connecting...OK.
Sent initrequest.
Connection accepted by v3 target.
ID     : 81
Name   : GFS/YAZ
Version: 5.34.0 dec0
Z> Z> Sent searchRequest.
Received SearchResponse.
Search was a success.
Number of hits: 42, setno 1
records returned: 0
Z> Sent presentRequest (1+2).
Records: 2
[Default]Record type: USmarc
245 10 $a A title
Number of hits: 7, setno 9
    [13] Present request out of range -- v2 addinfo '43'
"""


@pytest.mark.parametrize(
    "query",
    [
        "water\nquit",
        "water\r!touch x",
        "a\x00b",
        "a\u2028b",
        "",
        "  ",
        "x" * (LONGEST_QUERY + 1),
        "é" * (LONGEST_QUERY // 2 + 1),
    ],
)
def test_a_query_that_could_be_more_than_one_command_is_rejected(query: str) -> None:
    with pytest.raises(UsageError):
        searching(query, start=1, most=10)


@given(st.text(max_size=200))
def test_no_query_adds_a_line(query: str) -> None:
    try:
        lines = searching(query, start=1, most=10)
    except UsageError:
        return
    assert len("\n".join(lines).splitlines()) == 3
    assert all(len(line.encode()) < 10_000 for line in lines)


@pytest.mark.parametrize(
    "url",
    [
        "z3950://host:210/Default\nquit",
        "z3950://host:210/a%0Aquit",
        "z3950://host:210/a b",
        "z3950://user@host/Default",
        "z3950://host:0/Default",
        "z3950://host:99999/Default",
        "z3950:///Default",
        "z3950://ho;st/Default",
        "http://host/Default",
        "z3950://[/x",
    ],
)
def test_an_address_that_could_be_a_command_is_rejected(url: str) -> None:
    with pytest.raises(UsageError, match="z3950://host:port/database"):
        read_address(url)


def test_an_address_has_a_default_port_and_database() -> None:
    address = read_address("z3950://library.example")
    assert address.target() == "tcp:library.example:210/Default"
    assert read_address("z3950://[::1]:9999/INNOPAC").target() == "tcp:[::1]:9999/INNOPAC"


def test_text_of_a_record_is_not_read_as_output_of_the_client() -> None:
    output = read_output(SESSION)
    assert (output.size, output.received, output.diagnostic) == (42, 2, None)
    assert output.server == "GFS/YAZ 5.34.0 dec0"


def test_the_reason_for_a_rejected_connection_is_not_cut_off() -> None:
    output = read_output(
        f"Connection rejected by v3 target.\nID     : 81\nName   : {'A long name ' * 30}\n"
        "Init response contains 1 otherInfo unit:\n    1: code=1014 (Init/AC: Authentication System error),\n"
        "\taddinfo='wrong password'\nOptions: search present\nElapsed: 0.001\n"
    )
    assert output.rejected
    assert output.where == "code=1014 (Init/AC: Authentication System error), addinfo='wrong password'"


def test_a_temporary_error_of_the_server_is_retried() -> None:
    assert is_passing(Z3950Error("z3950://a", "diagnostic 2", "Temporary system error"))
    assert not is_passing(Z3950Error("z3950://a", "diagnostic 109", "Database unavailable"))
