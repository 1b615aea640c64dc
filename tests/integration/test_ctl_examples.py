"""Every example that `gatewayctl --help` shows does what it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from common.state.ports import NewSession
from controlplane.ctl.command import Command
from tests.support.control import Control, route_table
from tests.support.ctl import COMMANDS, examples_of, served

HANDLE = "1f2e3d4c5b6a7988"


@pytest.mark.parametrize("command", COMMANDS)
async def test_every_example_runs(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(Command, "confirm", lambda _, question: asked.append(question))
    monkeypatch.chdir(tmp_path)
    token = "operate" if command == "sessions revoke" else "read" if command == "sessions list" else "config"
    for number, example in enumerate(examples_of(command)):
        async with served(Control()) as operator:
            state = operator.control.state
            for revision in range(8):
                await operator.control.put(route_table(f"r{revision}"), revision)
            await state.beat("gateway-1", 99, "", 60_000)
            await state.create_session(NewSession(HANDLE + "0" * 48, "alice", "", (), 60_000, 60_000))
            table = json.dumps(route_table(f"mine-{number}"))
            Path("routes.json").write_text(table)
            ended = await operator.run(*example, token=token, stdin=table.encode() if "-" in example else None)
            assert (ended.exit_code, bool(ended.stdout)) == (0, True), (example, ended)
            if "--json" in example:
                json.loads(ended.stdout)
            wrote = command in ("config push", "config rollback")
            assert await operator.active() == (9 if wrote else 8)
    # Those that change something ask, unless they are told not to.
    expected = sum("--yes" not in example for example in examples_of(command))
    assert len(asked) == (expected if command in ("config push", "config rollback", "sessions revoke") else 0)
