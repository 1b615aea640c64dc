"""Editing in the console: errors lead to their place, nothing is published unseen, and nothing of an edit is lost."""

from __future__ import annotations

import asyncio
import json
import re

import pytest
from playwright.async_api import Browser, Page, Route, expect

from tests.support.console import checked, edited, editor, give_token, published, served, sign_in, visitor
from tests.support.control import TOKENS, Control, control_settings, route_table

pytestmark = [pytest.mark.browser, pytest.mark.real, pytest.mark.asyncio(loop_scope="module")]

SELECTED = "[document.activeElement.selectionStart, document.activeElement.selectionEnd]"


async def selected(page: Page) -> str:
    """The part of the table that is selected in the editor."""
    start, end = await page.evaluate(SELECTED)
    return (await editor(page).input_value())[start:end]


async def test_an_edit_is_checked_compared_published_and_arrives(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        await site.publish(route_table("app"))
        await sign_in(page, site, "#/edit")
        await expect(page.get_by_role("button", name="Publish…")).to_be_disabled()
        await edited(page, route_table("app", "shop"))
        await checked(page)
        found = page.get_by_label("What the check found")
        await expect(found).to_contain_text("1 route added.")
        await expect(found.get_by_text("+ your text")).to_be_visible()
        await found.get_by_label("As text").check()
        await expect(found.get_by_role("region")).to_contain_text('+      "id": "shop"')
        await page.get_by_role("button", name="Publish…").click()
        dialog = page.get_by_role("dialog", name="Publish as revision 2?")
        await expect(dialog).to_contain_text("1 route added.")
        await dialog.get_by_role("button", name="Publish").click()
        await expect(page).to_have_url(re.compile(r"#/replicas\?revision=2$"))
        assert await site.active() == route_table("app", "shop")
        await page.get_by_role("link", name="Edit").click()
        await expect(page.get_by_text("Based on revision 2")).to_be_visible()


async def test_an_error_leads_to_its_place_in_the_text(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        await site.publish(route_table("app", "shop"))
        await sign_in(page, site, "#/edit")
        wrong = route_table("app", "shop")
        wrong["routes"][1]["match"]["path"] = "shop"
        wrong["routes"][1]["auth"]["mode"] = "perhaps"
        await edited(page, wrong)
        await checked(page)
        await expect(page.get_by_role("heading", name="2 errors")).to_be_visible()
        await page.get_by_role("button", name="routes[1].match.path").click()
        assert await selected(page) == '"shop"'
        await page.get_by_role("button", name="routes[1].auth.mode").click()
        assert await selected(page) == '"perhaps"'
        await expect(page.get_by_role("button", name="Publish…")).to_be_disabled()
        text = '{\n  "version": 2,\n  "routes": [,]\n}'
        await edited(page, text)
        await checked(page)
        await page.get_by_role("button", name="the text").click()
        assert await page.evaluate("document.activeElement.selectionStart") == text.index(",]")


async def test_what_changed_after_the_check_is_not_published(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        await site.publish(route_table("app"))
        await sign_in(page, site, "#/edit")
        await edited(page, route_table("app", "shop"))
        await checked(page)
        await expect(page.get_by_role("button", name="Publish…")).to_be_enabled()
        await editor(page).press("End")
        await editor(page).press_sequentially(" ")
        await expect(page.get_by_role("button", name="Publish…")).to_be_disabled()
        await expect(page.get_by_text("Not checked")).to_be_visible()


async def test_a_conflict_loses_nothing_and_shows_what_changed_meanwhile(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        await site.publish(route_table("app"))
        await sign_in(page, site, "#/edit")
        mine = route_table("app", "mine")
        await edited(page, mine)
        await checked(page)
        await site.publish(route_table("app", "theirs"))
        await page.get_by_role("button", name="Publish…").click()
        await page.get_by_role("dialog").get_by_role("button", name="Publish").click()
        conflict = page.get_by_label("What the check found")
        await expect(conflict.get_by_role("heading", name="Revision 2 was published meanwhile")).to_be_focused()
        await expect(conflict).to_contain_text("it would undo them")
        await expect(conflict.get_by_role("listitem")).to_have_text(["+ theirs"])
        assert json.loads(await editor(page).input_value()) == mine
        assert await site.active() == route_table("app", "theirs")
        await page.get_by_role("button", name="Compare my text with revision 2").click()
        await expect(conflict).to_contain_text("1 route added, 1 route removed.")
        await expect(page.get_by_text("Based on revision 2")).to_be_visible()
        await edited(page, route_table("app", "theirs", "mine"))
        await published(page)
        await expect(page).to_have_url(re.compile(r"revision=3$"))
        assert await site.active() == route_table("app", "theirs", "mine")


async def test_a_check_tells_that_another_revision_is_active_by_now(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        await site.publish(route_table("app"))
        await sign_in(page, site, "#/edit")
        await edited(page, route_table("app", "mine"))
        await site.publish(route_table("app", "theirs"))
        await checked(page)
        await expect(page.get_by_text("Revision 2 was published since you began with 1.")).to_be_visible()
        await page.get_by_role("button", name="Publish…").click()
        await expect(page.get_by_role("heading", name="Revision 2 was published meanwhile")).to_be_visible()
        assert await site.active() == route_table("app", "theirs")


async def test_an_answer_to_an_older_text_does_not_open_the_way_for_a_newer_one(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        await site.publish(route_table("app"))
        await sign_in(page, site, "#/edit")
        await edited(page, route_table("app", "shop"))
        held = asyncio.Event()

        async def hold(route: Route) -> None:
            await held.wait()
            await route.continue_()

        await page.route("**/v1/config/validate", hold)
        await page.get_by_role("button", name="Check").click()
        await edited(page, '{"version": 2}')
        held.set()
        await expect(page.get_by_text("Valid, 4 warnings, before the last change")).to_be_visible()
        await expect(page.get_by_role("button", name="Publish…")).to_be_disabled()


async def test_the_first_table_of_an_empty_store_is_published(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        await sign_in(page, site, "#/edit")
        await expect(editor(page)).to_have_value(re.compile('"id": "first"'))
        await expect(page.get_by_role("link", name="Edit", exact=True)).to_be_visible()
        await published(page)
        await expect(page).to_have_url(re.compile(r"revision=1$"))
        assert (await site.active())["routes"][0]["id"] == "first"


async def test_going_back_closes_a_question_and_does_nothing(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        await site.publish(route_table("app"))
        await sign_in(page, site, "#/history")
        await page.get_by_role("link", name="Edit").click()
        await edited(page, route_table("app", "shop"))
        await checked(page)
        await page.get_by_role("button", name="Publish…").click()
        await expect(page.get_by_role("dialog")).to_be_visible()
        await page.go_back()
        await expect(page.get_by_role("heading", name="History")).to_be_visible()
        await expect(page.get_by_role("dialog")).to_have_count(0)
        assert await site.active() == route_table("app")


async def test_a_protected_route_is_named_before_anything_is_published(browser: Browser) -> None:
    control = Control(control_settings(PROTECTED_ROUTES="admin"))
    async with served(control) as site, visitor(browser, site) as page:
        await site.publish(route_table("admin", "app"))
        await sign_in(page, site, "#/edit")
        await edited(page, route_table("app"))
        await checked(page)
        found = page.get_by_label("What the check found")
        await expect(found.get_by_role("heading", name="Protected routes may not change")).to_be_visible()
        await expect(found).to_contain_text("removes or changes admin")
        await expect(page.get_by_role("button", name="Publish…")).to_be_disabled()


async def test_an_edit_survives_other_views_and_a_token_that_ends(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        await site.publish(route_table("app"))
        await sign_in(page, site, "#/edit")
        mine = json.dumps(route_table("app", "mine"))
        await edited(page, mine)
        await page.get_by_role("link", name="History").click()
        await expect(page.get_by_role("link", name="Edit (not published)")).to_be_visible()
        await page.get_by_role("link", name="Edit (not published)").click()
        await expect(editor(page)).to_have_value(mine)
        await page.route(
            "**/v1/config/validate",
            lambda route: route.fulfill(status=401, json={"error": "unauthorized", "message": "no"}),
        )
        await page.get_by_role("button", name="Check").click()
        await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        await expect(page.get_by_role("alert")).to_contain_text("does not accept this token any more")
        await page.unroute("**/v1/config/validate")
        await give_token(page, "config")
        await expect(editor(page)).to_have_value(mine)
        await checked(page)
        await expect(page.get_by_label("What the check found")).to_contain_text("1 route added.")


async def test_an_answer_that_got_lost_is_cleared_up(browser: Browser) -> None:
    """The write was made, and the connection ended before its answer came: writing again would be a conflict."""
    async with served() as site, visitor(browser, site) as page:
        await site.publish(route_table("app"))
        await sign_in(page, site, "#/edit")

        async def lose(route: Route) -> None:
            if route.request.method != "PUT":
                return await route.continue_()
            await route.fetch()
            return await route.abort()

        await page.route("**/v1/config", lose)
        await edited(page, route_table("app", "shop"))
        await published(page)
        await expect(page).to_have_url(re.compile(r"#/replicas\?revision=2$"))


async def test_a_write_that_never_arrived_may_be_tried_again(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        await site.publish(route_table("app"))
        await sign_in(page, site, "#/edit")

        async def cut(route: Route) -> None:
            await (route.abort() if route.request.method == "PUT" else route.continue_())

        await page.route("**/v1/config", cut)
        await edited(page, route_table("app", "shop"))
        await published(page)
        dialog = page.get_by_role("dialog")
        await expect(dialog.get_by_role("alert")).to_contain_text("It was not published: try again.")
        await page.unroute("**/v1/config")
        await dialog.get_by_role("button", name="Publish").click()
        await expect(page).to_have_url(re.compile(r"revision=2$"))


async def test_a_token_that_only_reads_may_check_and_is_told_why_it_cannot_publish(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        await site.publish(route_table("app"))
        await sign_in(page, site, "#/edit", token="read")
        await expect(page.get_by_text("This needs a token with the scope config; yours has read.")).to_be_visible()
        await edited(page, route_table("app", "shop"))
        await checked(page)
        await expect(page.get_by_label("What the check found")).to_contain_text("1 route added.")
        await expect(page.get_by_role("button", name="Publish…")).to_be_disabled()


async def test_leaving_the_page_with_an_edit_asks_first_and_forgetting_asks_too(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        await site.publish(route_table("app"))
        await sign_in(page, site, "#/edit")
        await edited(page, route_table("app", "shop"))
        asked: list[str] = []

        async def stay(dialog: object) -> None:
            asked.append(dialog.type)  # type: ignore[attr-defined]
            await dialog.dismiss()  # type: ignore[attr-defined]

        page.on("dialog", stay)
        await page.close(run_before_unload=True)
        await expect(page.get_by_role("heading", name="Edit the table")).to_be_visible()
        assert asked == ["beforeunload"]
        await page.get_by_role("button", name="Forget token").click()
        await page.get_by_role("dialog", name="Forget your changes, too?").get_by_role("button", name="Cancel").click()
        await expect(editor(page)).to_have_value(re.compile("shop"))
        await page.get_by_role("button", name="Forget token").click()
        await page.get_by_role("button", name="Forget both").click()
        await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        await give_token(page, TOKENS["config"])
        await expect(editor(page)).to_have_value(re.compile(r"app"))
        assert "shop" not in await editor(page).input_value()


async def test_a_table_is_laid_out_and_opened_from_a_file(browser: Browser) -> None:
    async with served() as site, visitor(browser, site) as page:
        await site.publish(route_table("app"))
        await sign_in(page, site, "#/edit")
        await expect(editor(page)).to_have_value(re.compile(r'^\{\n  "version": 2,\n'))
        content = json.dumps(route_table("app", "from-file"))
        await page.get_by_label("Open a table from a file").set_input_files(
            {"name": "table.json", "mimeType": "application/json", "buffer": content.encode()}
        )
        await expect(editor(page)).to_have_value(content)
        await page.get_by_role("button", name="Lay out").click()
        assert json.loads(await editor(page).input_value()) == route_table("app", "from-file")
        await expect(editor(page)).to_have_value(re.compile(r'^\{\n  "version": 2,\n'))
        await page.get_by_role("button", name="Start again").click()
        await page.get_by_role("dialog").get_by_role("button", name="Start again").click()
        await expect(editor(page)).not_to_have_value(re.compile("from-file"))
