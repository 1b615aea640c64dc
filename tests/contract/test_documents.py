"""The documents are whole: each error has its section, each metric its row, and the tests that are named exist."""

from __future__ import annotations

import re
from pathlib import Path

from common.state.postgres.models import Base
from dataplane import metrics
from dataplane.errors import ERRORS
from dataplane.metrics import GatewayMetrics

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def sections(text: str) -> dict[str, str]:
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_each_error_has_a_section_with_its_status() -> None:
    found = sections((DOCS / "failure-modes.md").read_text())
    assert set(ERRORS) <= set(found)
    assert set(found) - set(ERRORS) == {"When the caller leaves"}
    for code, spec in ERRORS.items():
        assert found[code].strip().startswith(f"{spec.status}."), code


def test_each_test_that_the_threat_model_names_exists() -> None:
    named = re.findall(
        r"`((?:tests/)?[\w/*]*test_?[\w*/]*(?:\.py)?|tests/[\w/*]+)`", (DOCS / "threat-model.md").read_text()
    )
    assert named
    for name in named:
        pattern = name if name.startswith("tests/") else f"tests/**/{name}"
        assert list(ROOT.glob(pattern)), name


def test_the_page_of_metrics_has_each_with_its_kind_labels_and_their_values() -> None:
    page = (DOCS / "metrics.md").read_text()
    for one in GatewayMetrics().instruments():
        labels = ", ".join(f"`{label}`" for label in one.labels)  # type: ignore[attr-defined]
        row = f"| `{one.name}` | {type(one).__name__.lower()} | {labels} | {one.description} |"  # type: ignore[attr-defined]
        assert row in page
    rows = [
        re.sub(r" \([^)]*\)", "", line)
        for line in page.splitlines()
        if re.match(r"\| `gateway_.*` \| `\w+` \| `", line)
    ]
    told = {tuple(re.findall(r"`(\w+)`", row.split("|")[3])) for row in rows}
    known = {value for name, value in vars(metrics).items() if isinstance(value, tuple) and name.isupper()}
    untold = {metrics.METHODS, metrics.STATUSES, metrics.STATE_OPERATIONS, metrics.STALE_AGE_BUCKETS}
    assert told == known - untold


def test_the_page_on_backups_names_the_tables_and_those_that_a_crash_of_postgres_empties() -> None:
    page = (DOCS / "backup.md").read_text()
    tables = Base.metadata.tables.values()
    named = {name for row in re.findall(r"Postgres ((?:`\w+`(?:, )?)+)", page) for name in re.findall(r"\w+", row)}
    assert named <= {table.name for table in tables}
    assert named
    words = {"auth_failures": "counts of failed authentication"}
    # What the sweep remembers is nobody's data.
    lost = {words.get(table.name, table.name) for table in tables if "UNLOGGED" in table._prefixes} - {"sweeps"}
    (row,) = re.findall(r"^\| (.*?) \|.*`UNLOGGED`", page, re.MULTILINE)
    assert set(row.split(", ")) == lost
