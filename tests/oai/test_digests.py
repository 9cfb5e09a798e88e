"""Digests are compared whatever their notation."""

import hashlib

import pytest

from oai.digests import DigestCheck, is_of_nothing, same_digest, written_forms

SHA1 = "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ"
HEX = "sha1:da39a3ee5e6b4b0d3255bfef95601890afd80709"
SHA256 = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
BASE64 = "sha1:2jmj7l5rSw0yVb/vlWAYkK/YBwk="
SHA256_BASE64 = "sha-256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
URL_SAFE = "SHA-256:47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU="
SHA512 = "sha-512:" + hashlib.sha512().hexdigest()
MD5 = "md5:d41d8cd98f00b204e9800998ecf8427e"
OF_NOTHING = [SHA1, HEX, BASE64, SHA256, SHA256_BASE64, URL_SAFE, SHA512, MD5]
OTHER = "sha1:" + "A" * 32


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (SHA1, SHA1, True),
        (SHA1, HEX, True),
        (SHA1, SHA1.removeprefix("sha1:"), True),
        (SHA1.lower(), HEX.upper(), True),
        (SHA1, BASE64, True),
        (BASE64.rstrip("="), BASE64, True),
        (BASE64.lower(), BASE64, False),
        (SHA256, SHA256_BASE64, True),
        (SHA256, URL_SAFE, True),
        (SHA256, "sha256:not+base64!", None),
        ("SHA-1:" + HEX[5:], SHA1, True),
        (SHA1, OTHER, False),
        (SHA1, SHA256, None),
        (SHA1, "sha1:short", None),
        (SHA1, "md6:" + HEX[5:], None),
        (SHA1, "", None),
        (SHA1, None, None),
        ("x", "x", None),
    ],
)
def test_digests_of_the_same_algorithm_are_compared_in_any_notation(
    one: str,
    other: str | None,
    expected: bool | None,  # noqa: FBT001 from the table above
) -> None:
    assert same_digest(one, other) is expected
    assert same_digest(other, one) is expected


@pytest.mark.parametrize("digest", OF_NOTHING)
def test_digests_of_empty_content_are_recognised(digest: str) -> None:
    assert is_of_nothing(digest)
    assert {digest.lower(), digest.lower().partition(":")[2]} <= set(written_forms(digest))


@pytest.mark.parametrize("digest", [OTHER, "sha1:x", "", None])
def test_other_digests_are_not_recognised_as_digests_of_empty_content(digest: str | None) -> None:
    assert not is_of_nothing(digest)


def test_an_unknown_digest_has_one_form() -> None:
    assert written_forms("md6:ABC") == ["md6:abc"]


@pytest.mark.parametrize("digest", [*OF_NOTHING, MD5.upper()])
def test_content_is_checked_in_each_notation(digest: str) -> None:
    nothing, something = DigestCheck(digest), DigestCheck(digest)
    something.see(b"x")
    assert (nothing.known, nothing.well(), something.well()) == (True, True, False)


@pytest.mark.parametrize(
    "digest", ["", "sha1:", "sha1:short", HEX + "00", "sha256:" + HEX[5:], "md6:" + HEX[5:]]
)
def test_invalid_digests_are_not_checked(digest: str) -> None:
    check = DigestCheck(digest)
    assert (check.known, check.well()) == (False, False)
