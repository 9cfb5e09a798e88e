"""The address of a listener, and the address at which it is reached."""

import socket

import pytest

from oai.serving import address, open_listener, own_address


@pytest.mark.parametrize(
    ("host", "named", "reached"),
    [
        ("127.0.0.1", "127.0.0.1", "127.0.0.1"),
        ("0.0.0.0", "0.0.0.0", "127.0.0.1"),
        ("::1", "[::1]", "[::1]"),
        ("::", "[::]", "[::1]"),
    ],
)
def test_the_address_at_which_a_listener_is_reached_is_computed(host: str, named: str, reached: str) -> None:
    if ":" in host and not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    with open_listener(host, 0) as listener:
        port = listener.getsockname()[1]
        assert (address(listener), own_address(listener)) == (
            f"http://{named}:{port}",
            f"http://{reached}:{port}",
        )
        listener.listen()
        socket.create_connection((reached.strip("[]"), port), timeout=60).close()
