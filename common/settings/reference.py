"""Writes docs/configuration.md from the tables of variables.

`python -m common.settings.reference docs/configuration.md` does it; a test holds the page to the tables.
"""

from __future__ import annotations

import sys
from pathlib import Path

from common.settings.access_service import ACCESS_SERVICE
from common.settings.acme import CHALLENGES
from common.settings.control_variables import CONTROL
from common.settings.ctl import CTL
from common.settings.variable import Section, Variable
from common.settings.variables import SECTIONS

INTRODUCTION = """\
# Configuration

<!-- Written by `python -m common.settings.reference docs/configuration.md`; change the tables there, not this page. -->

The gateway reads its environment once, at the start, and validates it as a whole: it starts with all of it, or reports
every problem at once and exits. The route table is a file of its own; `GATEWAY_CONFIG` names it.

- A variable that is set to nothing counts as absent.
- A `GATEWAY_…` name that is not on this page is an error, so that a typing error cannot turn a setting off. What
  Kubernetes injects for a Service named `gateway` or `gateway-…` is ignored, except its port variable, whose name could
  be a setting's: the message says how to turn the injection off.
- A **secret** may stand in a file instead: `GATEWAY_SESSION_SECRET_FILE=/run/secrets/session` in place of
  `GATEWAY_SESSION_SECRET`. One trailing line feed is dropped. Setting both is an error.
- Lists are separated by commas, scopes by spaces. Numbers are digits alone; durations are in milliseconds.
- No message repeats a value.

**Strong** means at least 32 bytes as it is read: 64 hexadecimal characters, 44 characters of base64, or a passphrase of
32 characters. 32 hexadecimal characters are 16 bytes, and too weak. One repeated character is no secret whatever its
length, and neither is a value that this repository publishes in an example. `openssl rand -hex 32` makes a strong one.

With `GATEWAY_ENV=production` the gateway refuses to start unless every entry of the column "production" holds.
CPython 3.11 or later is needed everywhere.
"""

TABLE_HEAD = """\
| variable | form | default | production | meaning |
| --- | --- | --- | --- | --- |
"""


def configuration_reference() -> str:
    """The page, in Markdown."""
    return "\n".join(
        [INTRODUCTION, *(_section(section) for section in (*SECTIONS, CHALLENGES, ACCESS_SERVICE, CONTROL, CTL))]
    )


def _section(section: Section) -> str:
    rows = "".join(_row(variable) for variable in section.variables)
    text = f"{section.text}\n\n" if section.text else ""
    return f"## {section.title}\n\n{text}{TABLE_HEAD}{rows}"


def _row(variable: Variable) -> str:
    name = f"`{variable.name}`" + (" (secret)" if variable.secret else "")
    cells = (name, variable.parse.form, _default(variable), variable.production, variable.meaning)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _default(variable: Variable) -> str:
    if variable.required:
        return "must be set"
    return variable.default_words or (f"`{variable.default}`" if variable.default else "none")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(configuration_reference(), encoding="utf-8")
