"""What the documents quote of the log is written, and what they do with it works: somebody searches for these words."""

from __future__ import annotations

import ast
import json
import re
import shlex
from functools import cache
from pathlib import Path

import pytest

from common.telemetry.log import Log
from tests.contract.test_documents_names import PROGRAMS, ROOT, each_page
from tests.support.counterparts import require_program
from tests.support.deployments import told

INCIDENTS = ROOT / "docs/incidents.md"
FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
# Words in code that are no program's of ours to say.
OTHERS = {
    "appendonly no", "chronyc tracking", "connection: close", "error: access_unavailable", "kill -TERM",
    "maxmemory 1gb", "maxmemory-policy noeviction", "nc -N", "openid email profile", "severity: page", "ulimit -Hn",
}  # fmt: skip


@cache
def written() -> tuple[re.Pattern[str], ...]:
    """Each text that the programs write, with anything where they put a value."""
    texts: set[str] = set()
    for part in ("common", "dataplane", "controlplane"):
        for path in (ROOT / part).rglob("*.py"):
            nodes = list(ast.walk(ast.parse(path.read_text())))
            described = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
            for node in nodes:
                if isinstance(node, ast.JoinedStr):
                    texts.add(
                        "".join(
                            re.escape(str(one.value)) if isinstance(one, ast.Constant) else ".+" for one in node.values
                        )
                    )
                elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in described:
                    texts.add(re.escape(node.value))
    return tuple(re.compile(text) for text in texts if len(re.findall(r"[a-z]", text)) > 6)


def is_written(phrase: str) -> bool:
    """Whether a program writes it, whole or as a part of a longer text."""
    plain = re.escape(phrase)
    return any(plain in text.pattern or text.fullmatch(phrase) for text in written())


def phrases(text: str) -> set[str]:
    """Words in code within a page's sentences: neither a command nor a header nor a setting."""
    found = {" ".join(one.split()) for one in re.findall(r"(?<!`)`([^`]+)`(?!`)", FENCED.sub("", text))}
    plain = {one for one in found if re.fullmatch(r"(?=.*[a-z])[\w,;:'. -]+ [\w,;:'. -]+", one)}
    known = {
        *PROGRAMS,
        "config",
        "curl",
        "docker",
        "helm",
        "kubectl",
        "make",
        "openssl",
        "python",
        "sessions",
        "systemctl",
    }
    return {
        one
        for one in plain - OTHERS
        if one.split()[0] not in known and not re.match(r"-|[A-Z]{2}|\S*[A-Z.-]\S*: \S+$", one)
    }


def lines_quoted(text: str) -> list[str]:
    """What a page says of a line's `msg`, or of its beginning."""
    return re.findall(r'"msg": "([^"]+)"|\.msg [!=]= "([^"]+)"|\.msg \| startswith\("([^"]+)"', text)


@each_page
def test_every_line_of_the_log_that_a_page_quotes_is_written(page: Path) -> None:
    text = page.read_text()
    quoted = {"".join(found) for found in lines_quoted(text)}
    # What is measured speaks of other programs too.
    told_of = set() if page.name in ("performance.md", "scale.md") else phrases(text)
    assert {one for one in quoted | told_of if not is_written(one)} == set()


def test_the_search_for_lines_finds_what_is_wrong() -> None:
    page = "`session: lost` or `the shared state on mars does not answer`, `connection: close`, `gateway run`\n"
    assert phrases(page) == {"session: lost", "the shared state on mars does not answer"}
    assert is_written("session: lost")  # A value stands there.
    assert is_written("the shared state on mars does not answer; callers who need it are denied")
    assert not is_written("the shared state on mars is gone")
    assert len(phrases(INCIDENTS.read_text())) > 8


def sample() -> str:
    """Lines as a gateway writes them, and one that another program wrote into the same log."""
    kept: list[bytes] = []
    log = Log(kept.append)
    for status, error in ((200, ""), (429, "too_many_requests"), (503, "gateway_overloaded")):
        for route, path in (("app", "/a"), ("gateway", "/auth/callback")):
            log.requests().line(
                "the-id", "0" * 32, "0" * 16, "192.0.2.1", "app.example.com", "GET", path, "", route, status, "refused",
                error, "requests", None, None, "http://app:80", 7.0, 7.5, 10, 20, None,
            )  # fmt: skip
    log.error("unexpected failure", where="dispatcher")
    log.error("a worker ended", reason="signal")
    return "".join(line.decode() for line in kept) + "Killed\n"


def filters() -> list[str]:
    """Each `logs | jq …` of the page, up to the next program."""
    text = INCIDENTS.read_text()
    shown = re.findall(r"^ *logs \| (jq .*)$", text, re.MULTILINE) + re.findall(r"`logs \| (jq [^`]*)`", text)
    return [shlex.join(_until_pipe(line.replace("…", "the-id"))) for line in shown]


def _until_pipe(line: str) -> list[str]:
    words = shlex.split(line)
    return words[: words.index("|")] if "|" in words else words


@pytest.mark.parametrize("command", filters())
def test_what_the_page_on_incidents_asks_of_a_log_is_answered(command: str) -> None:
    _, *options = shlex.split(command)
    jq = require_program("jq")
    # What `logs` stands for ends with this.
    (cleaning,) = set(re.findall(r"\| jq (-\w+) '([^']+)'\"$", INCIDENTS.read_text(), re.MULTILINE))
    clean = told(jq, *cleaning, given=sample())
    assert len(clean.stdout.splitlines()) == len(sample().splitlines()) - 1
    asked = told(jq, *options, given=clean.stdout)
    assert (asked.returncode, asked.stderr) == (0, "")
    assert asked.stdout
    known = {name for line in clean.stdout.splitlines() for name in json.loads(line)}
    assert set(re.findall(r"(?<![\w\])])\.([a-zA-Z]+)", options[-1])) <= known
