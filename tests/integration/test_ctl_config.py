"""`gatewayctl config` against the control plane's own application, over a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from common.routetable.document import MAX_TABLE_BYTES
from controlplane.ctl.command import Command
from tests.support.control import Control, control_settings, route_table
from tests.support.ctl import Operator, served

HOSTILE = "http://user:hunter2@127.0.0.1:3000"


@pytest.fixture
async def operator() -> AsyncIterator[Operator]:
    async with served(Control()) as found:
        yield found


@pytest.fixture
def table(tmp_path: Path) -> Any:
    """`table("a", "b", …)` writes a file of these routes, and names it."""

    def write(*ids: str, **more: Any) -> str:
        path = tmp_path / "routes.json"
        path.write_text(json.dumps(route_table(*ids, **more), indent=3))
        return str(path)

    return write


class TestGet:
    async def test_the_active_table_is_printed_as_it_was_written(self, operator: Operator, table: Any) -> None:
        file = table("a", "b")
        assert (await operator.run("config", "push", file, "--yes")).exit_code == 0
        shown = await operator.run("config", "get", token="read")
        assert (shown.exit_code, shown.stderr) == (0, "")
        assert shown.stdout == Path(file).read_text() + "\n"

    async def test_a_revision_and_its_number_are_there_for_programs(self, operator: Operator) -> None:
        await operator.control.put(route_table("a"), 0)
        await operator.control.put(route_table("b"), 1)
        active, first = (
            await operator.run("config", "get", "--json"),
            await operator.run("config", "get", "--revision", "1", "--json"),
        )
        assert active.value == {"revision": 2, "table": route_table("b")}
        assert (first.value["revision"], first.value["table"]) == (1, route_table("a"))
        assert json.loads((await operator.run("config", "get", "--revision", "1")).stdout) == route_table("a")

    async def test_an_empty_store_and_an_unknown_revision_are_told(self, operator: Operator) -> None:
        for arguments in (("config", "get"), ("config", "get", "--revision", "7")):
            ended = await operator.run(*arguments)
            assert (ended.exit_code, ended.stdout) == (1, "")
            assert "There is no" in ended.stderr

    async def test_credentials_are_masked_and_cannot_be_published_by_mistake(
        self, operator: Operator, tmp_path: Path
    ) -> None:
        route = {**route_table("a")["routes"][0], "upstream": HOSTILE}
        await operator.control.put({"version": 1, "routes": [route]}, 0)
        shown = await operator.run("config", "get")
        assert "hunter2" not in shown.stdout + shown.stderr
        assert "are masked" in shown.stderr
        copy = tmp_path / "copy.json"
        copy.write_text(shown.stdout.replace("/a/", "/b/"))
        pushed = await operator.run("config", "push", str(copy), "--yes")
        assert pushed.exit_code == 1
        assert "routes[0].upstream" in pushed.stderr
        assert await operator.active() == 1


class TestPush:
    async def test_it_shows_the_difference_and_the_warnings_and_writes_over_what_it_read(
        self, operator: Operator, table: Any
    ) -> None:
        await operator.control.put(route_table("a", "b"), 0)
        pushed = await operator.run("config", "push", table("b", "c"), "--yes")
        assert (pushed.exit_code, pushed.stdout) == (0, "Revision 2 is published and active.\n")
        assert "1 route added, 1 route removed" in pushed.stderr
        assert "--- revision 1" in pushed.stderr
        assert '+      "id": "c",' in pushed.stderr
        assert "warning  c: match.host" in pushed.stderr
        assert await operator.active() == 2

    async def test_the_first_revision_is_published_into_an_empty_store(self, operator: Operator, table: Any) -> None:
        pushed = await operator.run("config", "push", table("a"), "--yes", "--json")
        assert pushed.exit_code == 0
        assert pushed.stderr == ""
        assert (pushed.value["revision"], pushed.value["changed"]) == (1, True)
        assert pushed.value["warnings"][0]["route"] == "a"

    async def test_every_problem_is_named_at_once_and_nothing_is_written(
        self, operator: Operator, tmp_path: Path
    ) -> None:
        bad = tmp_path / "bad.json"
        bad.write_text(json.dumps({"version": 2, "routes": [{"id": "A"}, {"id": "b", "nmae": 1}]}))
        ended = await operator.run("config", "push", str(bad), "--yes")
        assert ended.exit_code == 1
        for place in ("routes[0].id", "routes[0].match", "routes[1].nmae", "routes[1].upstream"):
            assert f"error    {place}: " in ended.stderr
        assert "bad.json is invalid" in ended.stderr
        failure = (await operator.run("config", "push", str(bad), "--yes", "--json")).failure
        assert failure["error"] == "invalid_config"
        assert "routes[0].id" in [one["path"] for one in failure["errors"]]
        bad.write_text("{")
        assert "is not valid JSON" in (await operator.run("config", "push", str(bad), "--yes")).stderr
        assert await operator.active() == 0

    async def test_without_a_terminal_nothing_is_written_unless_yes_says_so(
        self, operator: Operator, table: Any
    ) -> None:
        ended = await operator.run("config", "push", table("a"), stdin=b"y\n")
        assert (ended.exit_code, ended.stdout) == (1, "")
        assert '+      "id": "a",' in ended.stderr
        assert "add --yes" in ended.stderr
        ended = await operator.run("config", "push", table("a"), "--json", stdin=b"y\n")
        assert (ended.exit_code, ended.failure["error"]) == (2, "usage")
        assert await operator.active() == 0

    async def test_a_table_without_a_difference_is_not_written_again(self, operator: Operator, table: Any) -> None:
        await operator.control.put(route_table("a", "b"), 0)
        pushed = await operator.run("config", "push", table("b", "a"), "--json", "--yes")
        assert (pushed.exit_code, pushed.value["changed"], pushed.value["revision"]) == (0, False, 1)
        assert "nothing was written" in (await operator.run("config", "push", table("a", "b"))).stdout
        assert await operator.active() == 1

    async def test_who_was_faster_is_named_and_nothing_is_overwritten(
        self, operator: Operator, table: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await operator.control.put(route_table("a"), 0)
        loop = asyncio.get_running_loop()

        def write_meanwhile(self: Command, question: str) -> None:
            assert question.startswith("Publish ")
            expected = asyncio.run_coroutine_threadsafe(operator.active(), loop).result()
            put = operator.control.put(route_table(f"other{expected}"), expected)
            assert asyncio.run_coroutine_threadsafe(put, loop).result().status_code == 201

        monkeypatch.setattr(Command, "confirm", write_meanwhile)
        file = table("mine")
        ended = await operator.run("config", "push", file)
        assert (ended.exit_code, ended.stdout) == (3, "")
        assert "revision 2 " in ended.stderr
        assert "config-operator" in ended.stderr
        assert "Nothing was written. See what was changed: gatewayctl config diff --from 1. " in ended.stderr
        assert ended.stderr.endswith(f"Then try again: gatewayctl config push {file}\n")
        ended = await operator.run("config", "push", file, "--json")
        assert (ended.exit_code, ended.failure["error"], ended.failure["revision"]) == (3, "revision_conflict", 3)
        assert [one["revision"] for one in ended.failure["since"]] == [3]
        ended = await operator.run("config", "rollback", "1")
        assert (ended.exit_code, ended.stdout) == (3, "")
        assert await operator.active() == 4

    async def test_a_protected_route_is_a_conflict_that_is_told_before_anybody_is_asked(self, table: Any) -> None:
        async with served(Control(control_settings(PROTECTED_ROUTES="admin"))) as operator:
            await operator.control.put(route_table("admin", "a"), 0)
            ended = await operator.run("config", "push", table("a"))
            assert ended.exit_code == 3
            assert "Protected routes may not be removed or changed: admin" in ended.stderr
            failure = (await operator.run("config", "push", table("a"), "--yes", "--json")).failure
            assert failure["error"] == "protected_route"
            await operator.control.put(route_table("admin", "b"), 1)
            assert await operator.active() == 2

    async def test_another_scope_is_refused(self, operator: Operator, table: Any) -> None:
        ended = await operator.run("config", "push", table("a"), "--yes", token="read")
        assert ended.exit_code == 1
        assert "scope config" in ended.stderr
        assert await operator.active() == 0

    async def test_a_table_comes_from_standard_input_too(self, operator: Operator) -> None:
        text = json.dumps(route_table("a")).encode()
        assert (await operator.run("config", "push", "-", "--yes", stdin=text)).exit_code == 0
        assert await operator.active() == 1

    async def test_a_file_that_is_not_there_or_too_large_is_not_sent(self, operator: Operator, tmp_path: Path) -> None:
        missing = await operator.run("config", "push", str(tmp_path / "none.json"), "--yes")
        assert missing.exit_code == 2
        assert "No such file" in missing.stderr
        large = tmp_path / "large.json"
        large.write_bytes(b" " * (MAX_TABLE_BYTES + 1))
        ended = await operator.run("config", "push", str(large), "--yes")
        assert ended.exit_code == 1
        assert "is larger than" in ended.stderr
        assert not any(event.get("method") == "POST" for event in operator.control.events())


class TestDiff:
    async def test_two_revisions_a_file_and_the_last_change(self, operator: Operator, table: Any) -> None:
        for number, ids in enumerate((("a",), ("a", "b"), ("b",))):
            await operator.control.put(route_table(*ids), number)
        file = table("b", "c")
        last = await operator.run("config", "diff", "--json")
        assert (last.value["from"], last.value["to"], last.value["removed"]) == (2, 3, ["a"])
        first = await operator.run("config", "diff", "--from", "1", "--to", "2", "--json")
        assert (first.value["added"], first.value["removed"]) == (["b"], [])
        mine = await operator.run("config", "diff", file, "--json")
        assert (mine.value["from"], mine.value["added"], mine.value["removed"]) == (3, ["c"], [])
        old = await operator.run("config", "diff", file, "--from", "1", "--json")
        assert (old.value["from"], old.value["added"], old.value["removed"]) == (1, ["b", "c"], ["a"])
        text = await operator.run("config", "diff", "--from", "1")
        assert text.exit_code == 0
        assert text.stdout.splitlines()[0] == "1 route added, 1 route removed"
        assert "--- revision 1" in text.stdout
        assert "+++ revision 3" in text.stdout
        assert (await operator.run("config", "diff", "--from", "3")).stdout == "No difference.\n"

    async def test_what_the_first_revision_changed_is_everything(self, operator: Operator) -> None:
        assert (await operator.run("config", "diff")).exit_code == 1
        await operator.control.put(route_table("a"), 0)
        assert (await operator.run("config", "diff", "--json")).value["added"] == ["a"]

    async def test_an_invalid_file_and_a_file_with_to_are_told(self, operator: Operator, tmp_path: Path) -> None:
        bad = tmp_path / "bad.json"
        bad.write_text("{}")
        assert "error    version: " in (await operator.run("config", "diff", str(bad))).stderr
        assert (await operator.run("config", "diff", str(bad), "--to", "1")).exit_code == 2


class TestRollback:
    async def test_an_earlier_table_becomes_a_new_revision(self, operator: Operator) -> None:
        await operator.control.put(route_table("a"), 0)
        await operator.control.put(route_table("b"), 1)
        ended = await operator.run("config", "rollback", "1", "--yes")
        assert (ended.exit_code, ended.stdout) == (0, "Revision 3 is published and active.\n")
        assert "1 route added, 1 route removed" in ended.stderr
        again = await operator.run("config", "rollback", "1", "--yes", "--json")
        assert (again.value["revision"], again.value["changed"]) == (3, False)
        history = await operator.run("config", "history", "--json")
        assert [one["action"] for one in history.value["items"]] == ["config.rollback", "config.write", "config.write"]

    async def test_nothing_is_taken_back_unasked_or_from_nowhere(self, operator: Operator) -> None:
        assert "There is no revision yet" in (await operator.run("config", "rollback", "1", "--yes")).stderr
        await operator.control.put(route_table("a"), 0)
        await operator.control.put(route_table("b"), 1)
        assert (await operator.run("config", "rollback", "1")).exit_code == 1
        unknown = await operator.run("config", "rollback", "9", "--yes")
        assert (unknown.exit_code, unknown.stdout) == (1, "")
        assert await operator.active() == 2


class TestHistory:
    async def test_pages_are_followed_as_far_as_the_limit(self, operator: Operator) -> None:
        for number in range(7):
            await operator.control.put(route_table(f"r{number}"), number)
        shown = await operator.run("config", "history", "--limit", "3", token="read")
        lines = shown.stdout.splitlines()
        assert lines[0].split() == ["REVISION", "TIME", "OPERATOR", "ACTION"]
        assert [line.split()[0] for line in lines[1:]] == ["7", "6", "5"]
        assert "There are more" in shown.stderr
        assert (await operator.run("config", "history", "--limit", "7", "--json")).value["more"] is False

    async def test_everything_is_listed_page_by_page(self, operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("controlplane.ctl.client.PAGE_ITEMS", 3)
        for number in range(7):
            await operator.control.put(route_table(f"r{number}"), number)
        shown = await operator.run("config", "history", "--limit", "0", "--json")
        assert [one["revision"] for one in shown.value["items"]] == [7, 6, 5, 4, 3, 2, 1]
        assert shown.value["more"] is False
        some = await operator.run("config", "history", "--limit", "5", "--json")
        assert ([one["revision"] for one in some.value["items"]], some.value["more"]) == ([7, 6, 5, 4, 3], True)
