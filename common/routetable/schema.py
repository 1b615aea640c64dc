"""The published JSON Schema of the table, made from the models: `python -m common.routetable.schema` prints it.

It describes the shape for editors and pipelines. What a schema cannot say (ambiguity, placeholders, reserved paths) is
`load_route_table`'s, so a table that fits the schema may still be refused.
"""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from common.routetable.model import TableV1, TableV2

_TABLE: TypeAdapter[TableV1 | TableV2] = TypeAdapter(Annotated[TableV1 | TableV2, Field(discriminator="version")])


def route_table_schema() -> dict[str, Any]:
    """The schema of both versions (JSON Schema 2020-12)."""
    schema = _tidied(_TABLE.json_schema(by_alias=True))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Wicketgate route table",
        **schema,
    }


def route_table_components() -> dict[str, Any]:
    """The same as schemas of an OpenAPI 3.1 document: `RouteTable`, and the parts that it refers to."""
    schema = _tidied(_TABLE.json_schema(by_alias=True, ref_template="#/components/schemas/{model}"))
    parts: dict[str, Any] = schema.pop("$defs")
    return {**parts, "RouteTable": schema}


def schema_text() -> str:
    """The schema as the published file holds it."""
    return json.dumps(route_table_schema(), indent=2, ensure_ascii=False) + "\n"


def _tidied(schema: Any) -> Any:
    """Without null, which the file never holds, and without the titles that repeat the names of fields."""
    if isinstance(schema, list):
        return [_tidied(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {key: _tidied(value) for key, value in schema.items() if not _is_noise(key, value)}
    options = plain.get("anyOf")
    if isinstance(options, list) and {"type": "null"} in options:
        kept = [option for option in options if option != {"type": "null"}]
        del plain["anyOf"]
        plain = {**kept[0], **plain} if len(kept) == 1 else {**plain, "anyOf": kept}
    return plain


def _is_noise(key: str, value: object) -> bool:
    return (key == "default" and value is None) or (key == "title" and isinstance(value, str))


if __name__ == "__main__":
    sys.stdout.write(schema_text())
