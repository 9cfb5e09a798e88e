"""Attacks through `mailto:` links: a repository's adminEmail that adds recipients or text to a mail."""

from pathlib import Path

import pytest

import provider
import web
from oai.outgoing import mail_link
from tests.web.conftest import Browser, Server
from tests.web.rows import a_repository

EVIL = "a@x.example?cc=victim@x.example&body=Pay,b@x.example"


def test_characters_after_the_address_are_escaped_as_part_of_it() -> None:
    address = "mailto:a@x.example%3Fcc%3Dvictim@x.example%26body%3DPay%2Cb@x.example"

    assert mail_link(EVIL) == address
    assert mail_link(EVIL, subject="a&b", body="c\nd") == f"{address}?subject=a%26b&body=c%0Ad"


async def test_the_mail_link_of_a_repository_has_no_further_recipients(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        repository = a_repository(session)
        repository.admin_email = EVIL
        session.commit()
        number = repository.repository_id

    _, page = await administrator.get(f"/repositories/{number}")

    assert f'href="{mail_link(EVIL)}"' in page
    assert "?cc=" not in page.replace("a@x.example?cc=", "")


@pytest.mark.parametrize("package", [web, provider])
def test_templates_contain_no_literal_mailto_links(package: object) -> None:
    folder = Path(str(getattr(package, "__file__", ""))).parent
    templates = list(folder.rglob("*.html"))

    assert templates
    assert [path.name for path in templates if "mailto:" in path.read_text(encoding="utf-8")] == []
