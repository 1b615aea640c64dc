"""A person clicks through `gateway dev` in a real browser."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Browser, BrowserContext, Page, Response, expect

from tests.support.chromium import person
from tests.support.demo import RunningDemo

pytestmark = [pytest.mark.browser, pytest.mark.real]

MEMBER, GUEST = "member@example.test", "guest@example.test"


async def _open(page: Page, url: str) -> Response:
    response = await page.goto(url)
    assert response is not None
    return response


async def _sign_in(page: Page, email: str) -> None:
    await expect(page.get_by_role("heading", name="Choose an account")).to_be_visible()
    await page.get_by_role("button", name=email).click()


async def _signed_in(context: BrowserContext, demo: RunningDemo, email: str) -> Page:
    page = await context.new_page()
    await _open(page, f"{demo.gateway}/me")
    await _sign_in(page, email)
    await page.wait_for_url(f"{demo.gateway}/me")
    return page


async def test_a_login_ends_on_the_page_that_asked_for_it_with_a_verified_identity(
    browser: Browser, demo: RunningDemo
) -> None:
    async with person(browser) as context:
        page = await context.new_page()
        await _open(page, f"{demo.gateway}/")
        await page.get_by_role("link", name="See your identity").click()
        assert page.url.startswith(f"{demo.provider}/authorize?")
        await _sign_in(page, MEMBER)
        await page.wait_for_url(f"{demo.gateway}/me")
        await expect(page.get_by_text("The identity signature is valid.")).to_be_visible()
        await expect(page.get_by_role("row", name="x-gateway-user-id gateway demo-member")).to_be_visible()


async def test_the_session_cookie_is_out_of_reach_for_scripts_and_upstreams(
    browser: Browser, demo: RunningDemo
) -> None:
    async with person(browser) as context:
        page = await _signed_in(context, demo, MEMBER)
        (cookie,) = [one for one in await context.cookies(demo.gateway) if one["name"] == "gateway_session"]
        assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Lax", "/")
        assert "gateway_session" not in await page.content()
        assert await page.evaluate("document.cookie") == ""
        assert await context.cookies(demo.provider) == []


async def test_one_account_sees_the_workspace(browser: Browser, demo: RunningDemo) -> None:
    async with person(browser) as context:
        page = await _signed_in(context, demo, MEMBER)
        response = await _open(page, demo.workspace_url)
        assert response.status == 200
        await expect(page.get_by_role("heading", name="The demo workspace")).to_be_visible()
        await expect(page.get_by_role("row", name=f"x-gateway-workspace-id gateway {demo.workspace}")).to_be_visible()


async def test_the_other_account_sees_the_gateways_own_403_page(browser: Browser, demo: RunningDemo) -> None:
    async with person(browser) as context:
        page = await _signed_in(context, demo, GUEST)
        response = await _open(page, demo.workspace_url)
        assert response.status == 403
        assert response.headers["proxy-status"].startswith("wicketgate; error=")
        await expect(page.get_by_text("workspace_forbidden")).to_be_visible()
        await expect(page.get_by_text(response.headers["x-request-id"])).to_be_visible()


async def test_a_denial_leaves_the_session_alone(browser: Browser, demo: RunningDemo) -> None:
    async with person(browser) as context:
        page = await _signed_in(context, demo, GUEST)
        await _open(page, demo.workspace_url)
        await _open(page, f"{demo.gateway}/me")
        await expect(page.get_by_text("The identity signature is valid.")).to_be_visible()


async def test_signing_out_ends_the_session_itself_and_not_just_the_cookie(browser: Browser, demo: RunningDemo) -> None:
    async with person(browser) as context:
        page = await _signed_in(context, demo, MEMBER)
        kept = [one for one in await context.cookies(demo.gateway) if one["name"] == "gateway_session"]
        await page.get_by_role("button", name="Sign out").click()
        await page.wait_for_url(re.compile(rf"^{re.escape(demo.gateway)}/?(\?.*)?$"))
        await expect(page.get_by_role("link", name="Sign in")).to_be_visible()
        assert "gateway_session" not in {one["name"] for one in await context.cookies(demo.gateway)}
        # Whoever copied the cookie before holds nothing now.
        await context.add_cookies([{"name": kept[0]["name"], "value": kept[0]["value"], "url": demo.gateway}])
        await _open(page, f"{demo.gateway}/me")
        await expect(page.get_by_role("heading", name="Choose an account")).to_be_visible()


async def test_two_tabs_may_sign_in_at_once(browser: Browser, demo: RunningDemo) -> None:
    async with person(browser) as context:
        first, second = await context.new_page(), await context.new_page()
        await _open(first, f"{demo.gateway}/me")
        await _open(second, f"{demo.gateway}/stream")
        await _sign_in(first, MEMBER)
        await first.wait_for_url(f"{demo.gateway}/me")
        await _sign_in(second, MEMBER)
        await second.wait_for_url(f"{demo.gateway}/stream")
        await expect(first.get_by_text("The identity signature is valid.")).to_be_visible()
        await expect(second.get_by_role("heading", name="Live stream")).to_be_visible()


async def test_two_people_do_not_share_a_session(browser: Browser, demo: RunningDemo) -> None:
    async with person(browser) as one, person(browser) as other:
        await _signed_in(one, demo, MEMBER)
        page = await _signed_in(other, demo, GUEST)
        await expect(page.get_by_role("row", name="x-gateway-user-id gateway demo-guest")).to_be_visible()


async def test_events_reach_the_page_while_the_stream_goes_on(browser: Browser, demo: RunningDemo) -> None:
    async with person(browser) as context:
        page = await _signed_in(context, demo, MEMBER)
        await page.get_by_role("link", name="Live stream").click()
        await expect(page.get_by_text("Connected.")).to_be_visible()
        await expect(page.get_by_text(re.compile(r"^Event 3 for demo-member, sent "))).to_be_visible()


async def test_the_overview_knows_who_is_signed_in(browser: Browser, demo: RunningDemo) -> None:
    async with person(browser) as context:
        page = await _signed_in(context, demo, MEMBER)
        await page.get_by_role("link", name="Overview").click()
        await expect(page.get_by_role("button", name="Sign out")).to_be_visible()
        await expect(page.get_by_text(MEMBER).first).to_be_visible()
        await expect(page.get_by_role("link", name="Sign in")).to_be_hidden()


async def test_a_cancelled_login_gets_a_page_that_says_what_to_do(browser: Browser, demo: RunningDemo) -> None:
    async with person(browser) as context:
        page = await context.new_page()
        await _open(page, f"{demo.gateway}/me")
        async with page.expect_response(re.compile(r"/auth/callback\?")) as answer:
            await page.get_by_role("button", name="Cancel").click()
        assert (await answer.value).status == 400
        await expect(page.get_by_text("login_failed")).to_be_visible()


async def test_a_login_can_be_made_with_the_keyboard_alone(browser: Browser, demo: RunningDemo) -> None:
    async with person(browser) as context:
        page = await context.new_page()
        await _open(page, f"{demo.gateway}/me")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await page.wait_for_url(f"{demo.gateway}/me")
        await expect(page.get_by_role("row", name="x-gateway-user-id gateway demo-member")).to_be_visible()


async def test_a_strict_page_can_be_signed_in_to_and_not_be_linked_to_from_another_site(
    browser: Browser, demo: RunningDemo
) -> None:
    """To a browser every redirect of a login is cross-site: without the page in between nobody could get here."""
    async with person(browser) as context:
        page = await context.new_page()
        await _open(page, f"{demo.gateway}/me")
        callbacks: list[int] = []
        page.on("response", lambda answer: callbacks.append(answer.status) if "/auth/callback" in answer.url else None)
        await _sign_in(page, MEMBER)
        await page.wait_for_url(f"{demo.gateway}/me")
        await expect(page.get_by_text("The identity signature is valid.")).to_be_visible()
        assert callbacks == [200]
        await _open(page, f"{demo.provider}/.well-known/openid-configuration")
        await page.evaluate("address => { location.href = address }", f"{demo.gateway}/me")
        await expect(page.get_by_text("cross_site_request")).to_be_visible()
