"""Alerts and dashboard: they ask for metrics that exist, and alerts fire when they should and only then."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from common.telemetry.metrics import Counter, Gauge, Histogram
from controlplane.metrics import ControlMetrics
from dataplane.metrics import GatewayMetrics
from tests.support.counterparts import require_program
from tests.support.deployments import DEPLOY, ROOT, told

RULES = DEPLOY / "prometheus/alerts.yaml"
ALERTS: list[dict[str, Any]] = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana/wicketgate.json").read_text())
PANELS: list[dict[str, Any]] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]

# Of the interpreter and the process, and what Prometheus adds.
OTHERS = {"process_cpu_seconds_total", "process_resident_memory_bytes"}
ADDED_LABELS = {"instance", "le", "class"}


def instruments() -> dict[str, tuple[str, ...]]:
    """Every series that gateway and control plane can have, with its labels."""
    found: dict[str, tuple[str, ...]] = dict.fromkeys(OTHERS, ())
    for each in (*GatewayMetrics().instruments(), *ControlMetrics().instruments()):
        if isinstance(each, Histogram):
            found |= {f"{each.name}_{part}": each.labels for part in ("bucket", "sum", "count")}
        elif isinstance(each, Counter | Gauge):
            found[each.name] = each.labels
    return found


def expressions() -> dict[str, str]:
    found = {alert["alert"]: alert["expr"] for alert in ALERTS}
    for panel in PANELS:
        found |= {f"{panel['title']} {target['refId']}": target["expr"] for target in panel["targets"]}
    return found


@pytest.mark.parametrize("name", expressions())
def test_what_is_asked_for_exists_with_its_labels(name: str) -> None:
    known, text = instruments(), expressions()[name]
    asked = re.findall(r"\b((?:gateway|process)_[a-z_]+)(\{[^}]*\})?", text)
    assert asked
    for metric, selector in asked:
        assert metric in known
        labels = set(re.findall(r"(\w+)(?==|!=|=~|!~)", selector))
        assert labels <= {*known[metric], *ADDED_LABELS}


def test_prometheus_reads_every_expression(tmp_path: Path) -> None:
    promtool = require_program("promtool")
    # A dashboard's variables stand for something that Prometheus knows.
    shown = [
        text.replace("$__rate_interval", "5m").replace("$instance", "a").replace("$route", "b")
        for text in expressions().values()
    ]
    rules = [{"record": f"panel:{number}", "expr": text} for number, text in enumerate(shown)]
    (tmp_path / "panels.yaml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    for file in (tmp_path / "panels.yaml", RULES):
        checked = told(promtool, "check", "rules", file)
        assert checked.returncode == 0, checked.stderr + checked.stdout


def test_alerts_fire_when_they_should_and_only_then() -> None:
    tested = told(require_program("promtool"), "test", "rules", DEPLOY / "prometheus/alerts_test.yaml")
    assert tested.returncode == 0, tested.stdout + tested.stderr


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_an_alert_leads_to_what_to_do_about_it(alert: dict[str, Any]) -> None:
    page, _, section = alert["annotations"]["runbook"].partition("#")
    assert page == "docs/incidents.md"
    parts = re.split(r"^## (.*)$", (ROOT / page).read_text(), flags=re.MULTILINE)
    texts = {re.sub(r"[^\w-]", "", title.lower().replace(" ", "-")): text for title, text in pairwise(parts[1:])}
    assert f"`{alert['alert']}`" in texts[section]
    assert alert["labels"]["severity"] in ("page", "ticket")


def test_panels_say_what_they_show_and_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
