"""The client address of a request behind proxies, and forged headers."""

import ipaddress

import pytest

from oai.errors import SettingsError
from oai.proxies import visitor
from oai.sections import ProviderSettings
from oai.settings import load_settings

TRUSTED = [ipaddress.ip_network(text) for text in ("127.0.0.0/8", "::1/128", "10.0.0.0/8")]


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("192.0.2.1", [], "192.0.2.1"),
        ("192.0.2.1", ["198.51.100.7"], "192.0.2.1"),
        ("127.0.0.1", ["198.51.100.7"], "198.51.100.7"),
        ("::1", ["198.51.100.7"], "198.51.100.7"),
        ("::ffff:127.0.0.1", ["198.51.100.7"], "198.51.100.7"),
        ("127.0.0.1", ["203.0.113.9, 198.51.100.7"], "198.51.100.7"),
        ("127.0.0.1", ["198.51.100.7, 10.1.2.3"], "198.51.100.7"),
        ("127.0.0.1", ["198.51.100.7", "10.1.2.3"], "198.51.100.7"),
        ("127.0.0.1", ["203.0.113.9, 198.51.100.7, 10.1.2.3"], "198.51.100.7"),
        ("127.0.0.1", ["198.51.100.7:4711"], "198.51.100.7"),
        ("127.0.0.1", ['"[2001:db8::5]:4711"'], "2001:db8::5"),
        ("127.0.0.1", ["2001:db8::5"], "2001:db8::5"),
        ("127.0.0.1", ["203.0.113.9, unknown"], "127.0.0.1"),
        ("127.0.0.1", ["203.0.113.9, \xff\x00"], "127.0.0.1"),
        ("127.0.0.1", [""], "127.0.0.1"),
        ("fe80::1%eth0", [], "fe80::1"),
    ],
)
def test_forwarded_addresses_are_accepted_only_from_trusted_proxies(
    peer: str, forwarded: list[str], address: str
) -> None:
    assert str(visitor(peer, forwarded, TRUSTED).address) == address


@pytest.mark.parametrize(
    ("peer", "forwarded", "limited_as"),
    [
        ("192.0.2.1", [], "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", [], "2001:db8:1:2::/64"),
        ("127.0.0.1", [], None),
        ("127.0.0.1", ["10.1.2.3"], None),
        (None, [], None),
        ("", ["192.0.2.1"], None),
    ],
)
def test_clients_are_limited_by_address_or_network_and_trusted_proxies_are_not(
    peer: str | None, forwarded: list[str], limited_as: str | None
) -> None:
    assert visitor(peer, forwarded, TRUSTED).limited_as == limited_as


@pytest.mark.parametrize(
    ("peer", "how", "kept"),
    [
        ("192.0.2.77", "whole", "192.0.2.77"),
        ("192.0.2.77", "truncated", "192.0.2.0/24"),
        ("2001:db8:1:2:3:4:5:6", "truncated", "2001:db8:1::/48"),
        ("192.0.2.77", "none", ""),
        (None, "whole", ""),
    ],
)
def test_client_addresses_are_stored_as_configured(peer: str | None, how: str, kept: str) -> None:
    assert visitor(peer, [], TRUSTED).kept_as(how) == kept


def test_an_invalid_network_is_refused_with_its_setting() -> None:
    wrong = {"trusted_proxies": ["192.0.2.1/24"]}
    with pytest.raises(SettingsError, match=r"provider\.trusted_proxies.*'192\.0\.2\.1/24' is not a network"):
        load_settings(provider=wrong)
    assert ProviderSettings(trusted_proxies=("192.0.2.1",)).trusted_proxies == ("192.0.2.1/32",)
