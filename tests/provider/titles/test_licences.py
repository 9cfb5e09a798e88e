"""Licences in texts."""

import pytest

from provider.titles.licences import licence_by_key, licence_of

KNOWN = [
    ("CC BY-NC-ND 4.0", "cc-by-nc-nd-4.0", "https://creativecommons.org/licenses/by-nc-nd/4.0/"),
    ("CC BY 3.0 CZ", "cc-by-3.0-cz", "https://creativecommons.org/licenses/by/3.0/cz/"),
    ("CC BY 1.0", "cc-by-1.0", "https://creativecommons.org/licenses/by/1.0/"),
    (
        "Uveďte původ-Nezpracovávejte-Neužívejte komerčně 1.0 Generic (CC BY-ND-NC 1.0)",
        "cc-by-nc-nd-1.0",
        "https://creativecommons.org/licenses/by-nc-nd/1.0/",
    ),
    ("cc-by-sa 2.0", "cc-by-sa-2.0", "https://creativecommons.org/licenses/by-sa/2.0/"),
    ("CC0 1.0", "cc0-1.0", "https://creativecommons.org/publicdomain/zero/1.0/"),
    ("CC0", "cc0-1.0", "https://creativecommons.org/publicdomain/zero/1.0/"),
    ("Uveďte původ 4.0 Mezinárodní (CC BY 4.0)", "cc-by-4.0", "https://creativecommons.org/licenses/by/4.0/"),
    ("https://creativecommons.org/licenses/by-nc/3.0/cz/", "cc-by-nc-3.0-cz", None),
    ("http://creativecommons.org/publicdomain/zero/1.0/", "cc0-1.0", None),
    ("CC BY 4.0, https://creativecommons.org/licenses/by/4.0/", "cc-by-4.0", None),
    ("CC BY 4.0 (https://creativecommons.org/licenses/by/4.0/)", "cc-by-4.0", None),
    (" Creative Commons CC BY 4.0 International. ", "cc-by-4.0", None),
    ("CC BY 3.0 IGO", "cc-by-3.0-igo", "https://creativecommons.org/licenses/by/3.0/igo/"),
    ("CC BY-NC-ND 2.5 SCOTLAND", "cc-by-nc-nd-2.5-scotland", None),
    ("CC BY 2.1 JP", "cc-by-2.1-jp", None),
    ("https://creativecommons.org/licenses/by-nc/2.5/", "cc-by-nc-2.5", None),
    ("https://creativecommons.org/licenses/by/4.0/legalcode.cs", "cc-by-4.0", None),
    ("https://creativecommons.org/licenses/by/3.0/cz/deed.en", "cc-by-3.0-cz", None),
]


@pytest.mark.parametrize(("text", "key", "url"), KNOWN)
def test_a_licence_is_recognised(text: str, key: str, url: str | None) -> None:
    found = licence_of(text)
    assert found is not None
    assert found.key == key
    assert url in {None, found.url}
    assert licence_by_key(key) == found


@pytest.mark.parametrize(
    "text",
    ["", "all rights reserved", "CC", "CC BY", "CC BY-XX 4.0", "CC BY-ND-NC 4.0", "CC BY 5.0",
     "CC BY 4.0 or CC0", "access", "CC BY-SA-NC 3.0", "CC BY 4.0 or later", "CC BY-SA 3.0 or GFDL",
     "CC BY 4.0 if not stated otherwise", "CC BY 4.0 na texty", "CC BY 4.0 (fotografie mimo)",
     "All rights reserved; CC BY 4.0 not applicable", "All rights reserved; CC BY 4.0", "CC BY 4.0 CZ",
     "CC BY-NC-ND 2.5 CZ", "CC BY 2.1", "CC BY 4.0, https://creativecommons.org/licenses/by/3.0/",
     "not https://creativecommons.org/licenses/by/4.0/", "https://creativecommons.org/licenses/by/4.0/or/"],
)  # fmt: skip
def test_texts_without_a_single_known_licence_give_none(text: str) -> None:
    assert licence_of(text) is None
