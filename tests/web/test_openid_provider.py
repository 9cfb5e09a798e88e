"""Sign-in with npm's oidc-provider, which is not ours, in Chromium: `pytest --long`."""

import asyncio
import re
import shutil
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from tests.web.conftest import Server
from tests.web.openid_provider import use_provider
from web.auth.openid import RETURN

pytestmark = [pytest.mark.browser, pytest.mark.long]
_SCRIPT = Path(__file__).with_name("oidc_provider.mjs")


async def _run(*command: str, where: Path) -> None:
    process = await asyncio.create_subprocess_exec(*command, cwd=where, stdout=PIPE, stderr=PIPE)
    _, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()


async def _sign_in_there(page: Page) -> None:
    await page.get_by_placeholder("Enter any login").fill("Jana")
    await page.get_by_placeholder("and password").fill("anything")
    await page.get_by_role("button", name="Sign-in").click()


async def test_a_librarian_signs_in_confirms_and_signs_out(
    server: Server, page: Page, tmp_path: Path
) -> None:
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("no Node.js on this machine: install node and npm to test with oidc-provider")
    await _run(npm, "install", "--no-save", "oidc-provider@9", where=tmp_path)
    provider = await asyncio.create_subprocess_exec(
        node, str(_SCRIPT), str(tmp_path), server.base_url + RETURN, stdout=PIPE, stderr=PIPE
    )
    try:
        assert provider.stdout is not None
        issuer = (await provider.stdout.readline()).decode().strip()
        use_provider(server, issuer, create_users=True, roles={"librarians": "partner:mzk"})

        await page.goto(server.base_url + "/sign-in?next=/repositories")
        await page.get_by_role("link", name="Sign in with OpenID").click()
        await _sign_in_there(page)
        await page.get_by_role("button", name="Continue").click()
        await expect(page).to_have_url(server.base_url + "/repositories")
        await page.goto(server.base_url + "/account")
        await expect(page.get_by_text("mzk").first).to_be_visible()

        await page.goto(server.base_url + "/sign-in/again?next=/account")
        await page.get_by_role("link", name="Confirm with OpenID").click()
        await _sign_in_there(page)
        await expect(page).to_have_url(re.compile(r"/account$"))

        await page.goto(server.base_url + "/sign-in?done=signed-out")
        await page.get_by_role("link", name="Sign out of OpenID, too").click()
        await page.get_by_role("button", name="Yes, sign me out").click()
        await expect(page).to_have_url(server.base_url + "/sign-in")
    finally:
        provider.kill()
        await provider.wait()
