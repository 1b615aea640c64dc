"""Writes docs/control-api.md from the API's own description.

`python -m controlplane.reference docs/control-api.md` does it; a test holds the page to the code.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from controlplane.app import build_api
from controlplane.authentication import Allowed
from controlplane.errors import KINDS
from controlplane.openapi import openapi

INTRODUCTION = """\
# API of the control plane

<!-- Written by `python -m controlplane.reference docs/control-api.md`; change the code, not this page. -->

How to start it, what a token may do and how a table is published: [the control plane](control-plane.md). The same
description stands in `openapi/control.json` for generators of clients, and each control plane shows it at `/docs`.

"""
ERRORS = """\
## Errors

Every operation with a token may also answer 401, 403, 429, 500 or 503. An error is
`{"error": <code>, "message": <text>}`. A 400 also has `errors`, a list of `{"path", "message"}`, and a 409 the active
`revision`. 429 and 503 say in `retry-after` when to try again. Programs decide by the code.

| status | code | meaning |
| --- | --- | --- |
"""
SHAPES = """\
## Shapes

What the answers hold. Times are RFC 3339, in UTC. A route table is described on [its own page](route-table.md).

"""
LINE_MAX = 110
EVERYWHERE = ("401", "403", "429", "500", "503")
"""Answers that every operation with a token may give; they are told once."""


def control_api_reference(app: FastAPI) -> str:
    """The page, in Markdown."""
    document = openapi(app)
    routes = [route for one in app.state.routers for route in one.routes if isinstance(route, APIRoute)]
    scopes = {route.operation_id: list(_scopes(route.dependant)) for route in routes}
    return "".join(
        [
            INTRODUCTION,
            document["info"]["description"],
            "\n",
            *(_group(tag, document, scopes) for tag in document["tags"]),
            ERRORS,
            *(_row(kind.status, f"`{code}`", kind.meaning) for code, kind in KINDS.items()),
            "\n",
            SHAPES,
            "\n".join(_shapes(document["components"]["schemas"])),
        ]
    )


def _scopes(dependant: Dependant) -> Iterator[str]:
    if isinstance(dependant.call, Allowed):
        yield from dependant.call.scopes
    for needed in dependant.dependencies:
        yield from _scopes(needed)


def _group(tag: dict[str, str], document: dict[str, Any], scopes: dict[str | None, list[str]]) -> str:
    operations = (
        _operation(method, path, operation, scopes[operation["operationId"]])
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if tag["name"] in operation["tags"]
    )
    return f"## {tag['name'].capitalize()}\n\n{tag['description']}\n\n" + "".join(operations)


def _operation(method: str, path: str, operation: dict[str, Any], scopes: list[str]) -> str:
    security = [name for needed in operation.get("security", ()) for name in needed]
    who = f"Scope: {' or '.join(f'`{scope}`' for scope in scopes)}." if scopes else "No token."
    if "metricsToken" in security:
        who = "The token of `GATEWAY_CONTROL_METRICS_TOKEN`."
    parts = [f"### {operation['summary']}", f"`{method.upper()} {path}`. {who}", operation.get("description", "")]
    if parameters := operation.get("parameters"):
        rows = "".join(_parameter(parameter) for parameter in parameters)
        parts.append(f"| parameter | in | form | meaning |\n| --- | --- | --- | --- |\n{rows}".rstrip())
    if body := operation.get("requestBody"):
        content = body["content"]["application/json"]
        text = body.get("description") or content["schema"]["description"]
        shown = "" if "$ref" in content["schema"] else f"\n\n{_json(content['example'])}"
        parts.append(f"Body: {text}{shown}")
    told = [_answer(*one) for one in sorted(operation["responses"].items()) if one[0] not in EVERYWHERE or not scopes]
    parts.append("| status | answer |\n| --- | --- |\n" + "".join(told).rstrip())
    parts += [_json(example) for example in _successes(operation["responses"])]
    return "\n\n".join(filter(None, parts)) + "\n\n"


def _parameter(parameter: dict[str, Any]) -> str:
    name = f"`{parameter['name']}`" + (", required" if parameter.get("required") else "")
    return _row(name, parameter["in"], _form(parameter["schema"]), parameter.get("description", ""))


def _answer(status: str, response: dict[str, Any]) -> str:
    content = response.get("content", {}).get("application/json", {})
    codes = [f"`{code}`" for code in content.get("examples", {})]
    shape = f" {_form(content['schema'])}." if content.get("schema") else ""
    words = " or ".join(codes) or response["description"] + shape
    headers = [f"`{name}`" for name in response.get("headers", {}) if name not in ("x-request-id", "retry-after")]
    return _row(status, words + (f" With {', '.join(headers)}." if headers else ""))


def _successes(responses: dict[str, Any]) -> Iterator[Any]:
    for status, response in responses.items():
        content = response.get("content", {}).get("application/json", {})
        is_table = content.get("schema", {}).get("$ref", "").endswith("/RouteTable")
        if status.startswith("2") and "example" in content and not is_table:
            yield content["example"]


def _shapes(schemas: dict[str, Any]) -> Iterator[str]:
    for name, schema in schemas.items():
        # The table's parts have a page of their own, and a page of a list holds nothing but its items.
        if name.startswith("Page_") or name in ("Error", "RouteTable") or name.endswith(("Part", "V1", "V2")):
            continue
        rows = "".join(
            _row(f"`{field}`", _form(one), one.get("description", "")) for field, one in schema["properties"].items()
        )
        text = f"{schema['description']}\n\n" if "description" in schema else ""
        yield f"### {name}\n\n{text}| field | form | meaning |\n| --- | --- | --- |\n{rows}"


def _form(schema: dict[str, Any]) -> str:
    """A schema in a few words; a shape of this page as a link to it."""
    if "$ref" in schema:
        return _shape(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " or ".join(_form(option) for option in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return " or ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    kind = schema.get("type", "")
    if kind == "array":
        return f"list of {_form(schema['items'])}"
    if kind == "integer":
        return " ".join(["integer", *_bounds(schema)])
    if schema.get("format") == "date-time":
        return "time"
    return kind or "any JSON"


def _shape(name: str) -> str:
    if name.startswith("Page_"):
        return f"`items`, a list of {_shape(name.removeprefix('Page_').removesuffix('_'))}, and `nextCursor`"
    return "A [route table](route-table.md)" if name == "RouteTable" else f"[{name}](#{name.lower()})"


def _bounds(schema: dict[str, Any]) -> Iterator[str]:
    if "minimum" in schema:
        yield f"from {int(schema['minimum'])}"
    if "maximum" in schema:
        yield f"to {int(schema['maximum'])}"
    if "default" in schema:
        yield f"({schema['default']})"


def _row(*cells: object) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n\n", " ") for cell in cells) + " |\n"


def _json(value: dict[str, Any]) -> str:
    """On one line where it fits, else a line for each member."""
    text = json.dumps(value, ensure_ascii=False)
    if len(text) > LINE_MAX:
        members = (f"  {json.dumps(name)}: {json.dumps(one, ensure_ascii=False)}" for name, one in value.items())
        text = "{\n" + ",\n".join(members) + "\n}"
    return f"```json\n{text}\n```"


def _write(arguments: Iterable[str]) -> None:
    for target in arguments:
        Path(target).write_text(control_api_reference(build_api()), encoding="utf-8")


if __name__ == "__main__":
    _write(sys.argv[1:])
