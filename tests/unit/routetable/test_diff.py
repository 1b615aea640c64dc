"""What the difference of two tables names, and what it never shows."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import Any

from common.routetable.canonical import KEY_ORDER, redacted
from common.routetable.diff import FieldChange, RouteChange, table_difference
from common.routetable.schema import route_table_schema
from tests.support.route_tables import route


def table(*routes: Any, **top: Any) -> dict[str, Any]:
    return {"version": 2, **top, "routes": list(routes)}


def version_1(upstream: Any) -> dict[str, Any]:
    return {"version": 1, "routes": [{**route("a", "/a"), "upstream": upstream}]}


def shown(difference: Any) -> str:
    return json.dumps(asdict(difference))


def test_routes_are_named_as_added_removed_and_changed_field_by_field() -> None:
    before = table(route("a", "/a"), route("b", "/b", timeouts={"connectMs": 5}), route("c", "/c"))
    after = table(route("d", "/d"), route("c", "/c"), route("b", "/bb", methods=["GET"], timeouts={"bodyMs": 7}))
    found = table_difference(before, after)
    assert found.added == ("d",)
    assert found.removed == ("a",)
    assert found.changed == (
        RouteChange(
            "b",
            (
                FieldChange("match.path", "/b", "/bb"),
                FieldChange("match.methods", None, ["GET"]),
                FieldChange("timeouts.connectMs", 5, None),
                FieldChange("timeouts.bodyMs", None, 7),
            ),
        ),
    )
    assert found.settings == ()


def test_what_is_outside_the_routes_is_a_setting() -> None:
    before = table(route("a", "/a"), defaults={"timeouts": {"connectMs": 5}}, hosts=["a.example"])
    after = table(route("a", "/a"), defaults={"timeouts": {"connectMs": 6}, "websocket": True})
    assert table_difference(before, after).settings == (
        FieldChange("hosts", ["a.example"], None),
        FieldChange("defaults.websocket", None, True),
        FieldChange("defaults.timeouts.connectMs", 5, 6),
    )


def test_the_order_of_keys_routes_and_sets_is_no_difference() -> None:
    before = table(route("a", "/a", methods=["GET", "PUT"]), route("b", "/b"), hosts=["x.example", "y.example"])
    moved = table(route("b", "/b"), route("a", "/a", methods=["PUT", "GET"]), hosts=["y.example", "x.example"])
    found = table_difference(before, dict(reversed(moved.items())))
    assert not found
    assert asdict(found) == {"added": (), "removed": (), "changed": (), "settings": (), "unified": ""}


def test_the_order_of_upstreams_is_a_difference() -> None:
    first, second = "http://a.internal", "http://b.internal"
    before, after = table(route("a", "/a", upstream=[first, second])), table(route("a", "/a", upstream=[second, first]))
    assert table_difference(before, after).changed == (
        RouteChange("a", (FieldChange("upstream", [first, second], [second, first]),)),
    )


def test_a_default_that_is_written_out_is_a_difference() -> None:
    found = table_difference(table(route("a", "/a")), table(route("a", "/a", websocket=False)))
    assert found.changed == (RouteChange("a", (FieldChange("websocket", None, False),)),)


def test_an_empty_object_that_is_written_is_a_difference() -> None:
    found = table_difference(table(route("a", "/a")), table(route("a", "/a", timeouts={})))
    assert found.changed == (RouteChange("a", (FieldChange("timeouts", None, {}),)),)


def test_all_of_a_table_is_new_in_an_empty_store() -> None:
    found = table_difference(None, table(route("b", "/b"), route("a", "/a")), names=("nothing", "revision 1"))
    assert found.added == ("a", "b")
    assert found.settings == (FieldChange("version", None, 2),)
    assert found.unified.startswith("--- nothing\n+++ revision 1\n@@ -0,0 +1,")
    assert all(line.startswith("+") for line in found.unified.splitlines()[3:])
    assert table_difference(table(route("a", "/a")), None).removed == ("a",)
    assert not table_difference(None, None)


def test_the_unified_diff_shows_a_change_with_its_context_and_its_route() -> None:
    before = table(route("a", "/a"), route("orders", "/orders", timeouts={"connectMs": 5, "bodyMs": 9}))
    after = table(route("a", "/a"), route("orders", "/orders", timeouts={"connectMs": 6, "bodyMs": 9}))
    assert table_difference(before, after, names=("revision 3", "revision 4")).unified == (
        "--- revision 3\n"
        "+++ revision 4\n"
        "@@ -21,7 +21,7 @@ route orders\n"
        '         "mode": "none",\n'
        "       },\n"
        '       "timeouts": {\n'
        '-        "connectMs": 5,\n'
        '+        "connectMs": 6,\n'
        '         "bodyMs": 9,\n'
        "       },\n"
        "     },\n"
    )


def test_two_changes_far_apart_in_a_route_are_two_hunks() -> None:
    before = route("a", "/a", timeouts={"connectMs": 1, "uploadMs": 2, "responseMs": 3, "bodyMs": 4})
    after = {**before, "match": {"path": "/b"}, "timeouts": {**before["timeouts"], "bodyMs": 5}}
    unified = table_difference(table(before), table(after)).unified
    assert unified.count("@@ route a\n") == 2
    assert '"mode"' not in unified


def test_a_credential_in_a_url_is_never_shown() -> None:
    for before, after in (
        ("http://user:s3cret@a", "http://user:0ther@b"),
        ("http://user:s3cret@a", ["http://user:s3cret@a", "http://x:0ther@b/%40"]),
        ("http://us@er:s3cret@a", "http://a"),
    ):
        for old, new in ((version_1(before), version_1(after)), (None, version_1(after)), (version_1(before), None)):
            text = shown(table_difference(old, new))
            assert "s3cret" not in text
            assert "0ther" not in text
            assert "user" not in text
    assert redacted(version_1("http://user:s3cret@a"))["routes"][0]["upstream"] == "http://[redacted]@a"


def test_a_changed_credential_is_a_difference_without_being_shown() -> None:
    found = table_difference(version_1("http://user:s3cret@a"), version_1("http://user:0ther@a"))
    assert found.changed[0].fields == (FieldChange("upstream", "http://[redacted]@a", "http://[redacted, changed]@a"),)
    assert '+      "upstream": "http://[redacted, changed]@a",' in found.unified
    swapped = table_difference(version_1(["http://a:1@h", "http://a:2@h"]), version_1(["http://a:2@h", "http://a:1@h"]))
    assert swapped.changed[0].fields[0].after == ["http://[redacted, changed]@h"] * 2


def test_what_steers_a_terminal_is_escaped_in_the_text() -> None:
    before = table(route("a", "/a"))
    after = {**before, "reservedPaths": ["/\x1b[2J\u202e\x9b\u2028"]}
    unified = table_difference(before, after, names=("a\nb", "\x1b")).unified
    assert "".join(unified.split("\n")).isprintable()
    assert unified.count("\n") == 7


def test_every_key_of_the_schema_has_its_place() -> None:
    keys: set[str] = set()

    def collect(schema: Any) -> None:
        for value in schema.values() if isinstance(schema, dict) else schema:
            if isinstance(value, dict | list):
                collect(value)
        if isinstance(schema, dict) and isinstance(schema.get("properties"), dict):
            keys.update(schema["properties"])

    collect(route_table_schema())
    assert keys == set(KEY_ORDER)
    assert len(KEY_ORDER) == len(set(KEY_ORDER))


def test_the_largest_tables_are_compared_in_a_bounded_time() -> None:
    """A line diff of such tables takes minutes: each line occurs thousands of times."""
    many = 20_000
    before = table(*(route(f"r{n}", f"/{n}") for n in range(many)), hosts=[f"a{n}.example" for n in range(many)])
    after = table(
        *(route(f"r{n}", f"/{n}/x") for n in range(many - 1, 0, -1)), hosts=[f"b{n}.example" for n in range(many)]
    )
    began = time.process_time()
    found = table_difference(before, after)
    assert time.process_time() - began < 10
    assert len(found.changed) == many - 1
    assert found.removed == ("r0",)
