"""Common passwords, and passwords that look complicated but are easy to guess."""

import pytest

from oai.errors import UsageError
from web.auth.passwords import check_password

_NAME = "olga.novotna"


@pytest.mark.parametrize(
    "password",
    [
        "password1234",
        "Password1234!",
        "P@ssw0rd2026",
        "qwertyuiop[]",
        "1234567890123",
        "administrator1",
        "abcabcabcabcabc",
        "olga.novotna1",
        "zatva-zatva-zatva",
        "letmeinletmein",
    ],
)
def test_passwords_that_are_easy_to_guess_are_refused(password: str) -> None:
    with pytest.raises(UsageError, match="easy to guess"):
        check_password(password, least=8, user_name=_NAME)


@pytest.mark.parametrize(
    "password",
    [
        "correct horse battery staple",
        "kůň baterie správně svorka",
        "sedm strakatých ježků v poli",
        "9f$kQ2!vLm7z",
        "mezera na konci je dovolena ",
    ],
)
def test_strong_passwords_with_any_characters_are_accepted(password: str) -> None:
    check_password(password, least=12, user_name=_NAME)
