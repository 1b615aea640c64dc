"""The shape of a variable's entry in the tables."""

from __future__ import annotations

from dataclasses import dataclass

from common.settings.parsers import Parser, Seconds


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable. `field` is its name in the settings, `""` where the settings need no field for it.

    `default` is the text that stands for an absent variable, `""` for none; `default_words` says so in the reference.
    `production` is what production asks of it. A secret may come from the file that `<name>_FILE` names.
    """

    name: str
    field: str
    default: str
    parse: Parser
    meaning: str
    default_words: str = ""
    production: str = ""
    secret: bool = False
    required: str = ""
    """What to do about an absent one, for a variable that must be set everywhere."""


@dataclass(frozen=True, slots=True)
class Section:
    """A group of variables in the reference."""

    title: str
    variables: tuple[Variable, ...]
    text: str = ""


def named(name: str, default: str, parse: Parser, meaning: str, **more: str | bool) -> Variable:
    """A variable whose field is its name; milliseconds that become seconds say so in the field."""
    field = name.removeprefix("GATEWAY_").lower()
    if isinstance(parse, Seconds):
        field = field.removesuffix("_ms") + "_s"
    return Variable(name, field, default, parse, meaning, **more)  # type: ignore[arg-type]
