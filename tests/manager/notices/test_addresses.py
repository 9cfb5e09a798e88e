"""Which web addresses may be posted to."""

import pytest

from manager.notices.webhooks import check_url
from oai.errors import UsageError
from oai.proxies import is_public


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/", "file:///etc/passwd", "https://", "https:///x", "example.org", "http://[::1",
        "https://user:word@example.org/", "http://exa mple.org/", "http://example.org:99999/",
        "javascript:alert(1)", "https://library..example/", f"https://{'a' * 64}.example/", "https://ž..example/",
    ],
)  # fmt: skip
def test_an_invalid_web_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        check_url(url, private_networks=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "10.1.2.3", "[::1]", "[::ffff:10.0.0.1]"])
def test_private_addresses_are_refused_unless_allowed(host: str) -> None:
    check_url(f"http://{host}/", private_networks=True)
    with pytest.raises(UsageError, match="not on the public internet"):
        check_url(f"http://{host}/", private_networks=False)


@pytest.mark.parametrize("host", ["169.254.169.254", "[fe80::1]", "[fd00:ec2::254]"])
@pytest.mark.parametrize("private", [False, True])
def test_metadata_services_are_refused_always(host: str, private: bool) -> None:  # noqa: FBT001 a case
    with pytest.raises(UsageError, match="not on the public internet"):
        check_url(f"http://{host}/", private_networks=private)


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True), ("2001:4860:4860::8888", True), ("192.168.1.1", False), ("100.64.0.1", False),
        ("0.0.0.0", False), ("224.0.0.1", False), ("fe80::1%eth0", False), ("fd00::1", False),
        ("64:ff9b::7f00:1", False), ("64:ff9b::808:808", True), ("2002:7f00:1::", False),
        ("::ffff:127.0.0.1", False),
    ],
)  # fmt: skip
def test_an_address_that_embeds_another_is_public_only_if_the_other_is(address: str, public: bool) -> None:  # noqa: FBT001 a case
    assert is_public(address) is public
