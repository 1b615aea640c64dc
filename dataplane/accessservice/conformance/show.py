"""A report for people."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dataplane.accessservice.conformance.run import Outcome, Report, Result

_STYLES: dict[Outcome, str] = {"passed": "green", "warning": "yellow", "failed": "bold red", "skipped": "dim"}


def print_report(report: Report, console: Console) -> None:
    """A row a check: what became of it, and for one that did not pass what was found and what to do."""
    table = Table(title=f"Access protocol at {report.url}", title_justify="left", show_lines=False)
    table.add_column("result", no_wrap=True)
    table.add_column("check", no_wrap=True)
    table.add_column("what it asks, and what is wrong", overflow="fold")
    for result in report.results:
        table.add_row(Text(result.outcome, _STYLES[result.outcome]), Text(result.id), _story(result))
    console.print(table)
    counts = ", ".join(f"{report.count(outcome)} {outcome}" for outcome in _STYLES if report.count(outcome))
    console.print(Text(f"{counts}."))
    console.print(Text(_verdict(report)))


def _story(result: Result) -> Text:
    story = Text(result.title)
    if result.outcome in ("failed", "warning"):
        story.append(f"\nfound: {result.found}")
        story.append(f"\ndo: {result.advice}")
    return story


def _verdict(report: Report) -> str:
    if not report.passed:
        return "The service does not follow the protocol yet: the gateway would misread it where a check failed."
    if report.count("warning"):
        return "The service follows the protocol. The warnings are worth a look."
    return "The service follows the protocol."
