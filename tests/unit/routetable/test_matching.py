"""Which route a request selects (§3.3), what its template captures, and when its readings disagree."""

from __future__ import annotations

import pytest

from common.routetable.table import FOUND_MAX, FOUND_MAX_CHARS, AmbiguousPath, Found, RouteTable
from tests.support.route_tables import loaded, route, selected

WORKSPACE = {"mode": "any", "workspace": {"param": "id"}}
UUID = "11111111-1111-4111-8111-111111111111"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/x", "exact"),
        ("/x/", "prefix"),
        ("/x/y", "prefix"),
        ("/xy", None),
        ("/X", None),
        ("/", None),
        ("/x.", None),
    ],
)
def test_a_template_with_a_slash_is_a_prefix_and_one_without_is_the_path_too(path: str, expected: str | None) -> None:
    table = loaded(route("exact", "/x"), route("prefix", "/x/"))
    assert selected(table, path) == expected


def test_a_template_without_a_slash_has_everything_below_it() -> None:
    table = loaded(route("x", "/x"))
    assert [selected(table, path) for path in ("/x", "/x/", "/x/y/z", "/xy")] == ["x", "x", "x", None]


def test_a_prefix_does_not_match_the_path_without_its_slash() -> None:
    assert selected(loaded(route("x", "/x/")), "/x") is None


def test_a_placeholder_takes_exactly_one_segment_that_is_not_empty() -> None:
    table = loaded(route("one", "/ws/{id}"), route("two", "/ws/{id}/{file}/end"))
    assert selected(table, "/ws/7") == "one"
    assert selected(table, "/ws/7/") == "one"
    assert selected(table, "/ws/7/f/end") == "two"
    assert selected(table, "/ws/") is None
    assert selected(table, "/ws") is None


def test_captured_values_and_the_rest_are_as_the_caller_wrote_them() -> None:
    table = loaded(route("x", "/a/{one}/b/{two}/"))
    match = table.match(None, "/%61/%7Ex/b/y%20%c3%a9/r%41/s%2f", "GET")
    assert match is not None
    assert match.params == {"one": "%7Ex", "two": "y%20%c3%a9"}
    assert match.rest == "r%41/s%2f"


@pytest.mark.parametrize(
    ("template", "path", "rest"),
    [
        ("/", "/", ""),
        ("/", "/a/b", "a/b"),
        ("/x", "/x", ""),
        ("/x", "/x/", ""),
        ("/x", "/x/y/", "y/"),
        ("/x/", "/x/", ""),
        ("/x/", "/x/y", "y"),
        ("/x/", "/x//y", "/y"),
        ("/x/{id}", "/x/1", ""),
        ("/x/{id}/", "/x/1/a/b", "a/b"),
    ],
)
def test_the_rest_is_what_follows_the_matched_prefix_without_its_slash(template: str, path: str, rest: str) -> None:
    match = loaded(route("x", template)).match(None, path, "GET")
    assert match is not None
    assert match.rest == rest


class TestPrecedence:
    def test_an_exact_host_beats_a_wildcard_and_that_a_catch_all_whatever_their_paths(self) -> None:
        table = loaded(
            route("any", "/very/long/path", host="*"),
            route("wild", "/very/long", host="*.example.com"),
            route("exact", "/", host="api.example.com"),
        )
        assert selected(table, "/very/long/path", host="api.example.com") == "exact"
        assert selected(table, "/very/long/path", host="www.example.com") == "wild"
        assert selected(table, "/very/long/path", host="example.com") == "any"

    def test_a_less_specific_host_that_names_the_method_does_not_win(self) -> None:
        table = loaded(route("any", "/", methods=["GET"]), route("own", "/", host="api.example.com"))
        assert selected(table, "/", host="api.example.com") == "own"

    def test_a_host_whose_routes_do_not_match_falls_back_to_less_specific_ones(self) -> None:
        table = loaded(
            route("any", "/"),
            route("wild", "/w", host="*.example.com"),
            route("exact", "/e", host="api.example.com", methods=["POST"]),
        )
        assert selected(table, "/w", host="api.example.com") == "wild"
        assert selected(table, "/x", host="api.example.com") == "any"
        assert selected(table, "/e", host="api.example.com") == "any"
        assert selected(table, "/e", host="api.example.com", method="POST") == "exact"

    def test_a_route_that_names_the_method_beats_a_longer_one_that_names_none(self) -> None:
        table = loaded(route("get", "/", methods=["GET"]), route("admin", "/admin/users"))
        assert selected(table, "/admin/users") == "get"
        assert selected(table, "/admin/users", method="DELETE") == "admin"

    def test_the_longer_literal_prefix_wins(self) -> None:
        table = loaded(route("a", "/{x}/{y}/{z}"), route("b", "/a/{y}"), route("c", "/a/b"))
        assert selected(table, "/a/b/c") == "c"
        assert selected(table, "/a/z/c") == "b"
        assert selected(table, "/q/b/c") == "a"

    def test_more_segments_win_behind_one_literal_prefix(self) -> None:
        table = loaded(route("a", "/x/{id}"), route("b", "/x/{id}/files"), route("c", "/x/{id}/"))
        assert selected(table, "/x/1/files/2") == "b"
        assert selected(table, "/x/1/other") == "c"
        assert selected(table, "/x/1") == "a"

    def test_of_otherwise_equal_templates_the_one_that_ends_in_a_slash_wins(self) -> None:
        # By the id alone the second route could never be reached.
        table = loaded(route("a", "/x/{id}"), route("b", "/x/{id}/"))
        assert selected(table, "/x/1/y") == "b"

    def test_the_id_decides_last(self) -> None:
        table = loaded(route("zeta", "/x/{id}/files"), route("beta", "/x/{id}/{kind}"))
        assert selected(table, "/x/1/files") == "beta"
        assert selected(table, "/x/1/pages") == "beta"

    def test_the_longest_wildcard_is_the_most_specific(self) -> None:
        table = loaded(route("a", "/long/path", host="*.example.com"), route("b", "/", host="*.eu.example.com"))
        assert selected(table, "/long/path", host="a.eu.example.com") == "b"
        assert selected(table, "/long/path", host="eu.example.com") == "a"

    def test_the_order_of_the_file_decides_nothing(self) -> None:
        routes = [route("a", "/x/{id}"), route("b", "/x/{id}/files"), route("c", "/", methods=["GET"]), route("d", "/")]
        for table in (loaded(*routes), loaded(*reversed(routes))):
            assert selected(table, "/x/1/files", method="POST") == "b"
            assert selected(table, "/x/1/files") == "c"


class TestHosts:
    def test_a_wildcard_covers_every_name_below_it_and_whole_labels_only(self) -> None:
        table = loaded(route("wild", "/", host="*.example.com"))
        hosts = ("a.example.com", "a.b.example.com", "example.com", "evil-example.com", "example.com.evil.test", "")
        assert [selected(table, "/", host=host) for host in hosts] == ["wild", "wild", None, None, None, None]

    def test_a_request_without_a_host_matches_routes_of_every_host_only(self) -> None:
        table = loaded(route("own", "/", host="api.example.com"), route("any", "/"))
        assert selected(table, "/", host=None) == "any"
        assert selected(loaded(route("own", "/", host="*.example.com")), "/", host=None) is None

    @pytest.mark.parametrize("written", ["API.Example.COM", "api.example.com.", "api.EXAMPLE.com."])
    def test_case_and_a_trailing_dot_of_the_table_do_not_count(self, written: str) -> None:
        assert selected(loaded(route("x", "/", host=written)), "/", host="api.example.com") == "x"

    def test_an_internationalised_name_is_compared_as_a_labels(self) -> None:
        table = loaded(route("x", "/", host="Bücher.example"), hosts=["BÜCHER.example"])
        assert table.routes[0].host == "xn--bcher-kva.example"
        assert selected(table, "/", host="xn--bcher-kva.example") == "x"
        assert table.owns_host("xn--bcher-kva.example")

    def test_an_ipv6_host_matches_with_and_without_brackets(self) -> None:
        table = loaded(route("x", "/", host="[0:0:0:0:0:0:0:1]"), hosts=["[::1]"])
        assert selected(table, "/", host="::1") == "x"
        assert selected(table, "/", host="[::1]") == "x"
        assert table.owns_host("::1")
        assert table.owns_host("[::1]")

    def test_a_host_of_thousands_of_labels_is_not_cut_up(self) -> None:
        table = loaded(route("wild", "/", host="*.example.com"), route("any", "/"))
        assert selected(table, "/", host="a." * 4_000 + "example.com") == "any"


class TestMethods:
    def test_a_route_that_lists_methods_handles_only_those(self) -> None:
        table = loaded(route("x", "/", methods=["GET", "POST"]))
        methods = ("GET", "POST", "HEAD", "get", "OPTIONS", "")
        assert [selected(table, "/", method=m) for m in methods] == ["x", "x", None, None, None, None]

    def test_two_halves_of_one_path_are_told_apart_by_their_methods(self) -> None:
        table = loaded(route("read", "/x", methods=["GET"]), route("write", "/x", methods=["PUT"]), route("rest", "/x"))
        assert [selected(table, "/x", method=m) for m in ("GET", "PUT", "PATCH")] == ["read", "write", "rest"]

    def test_options_for_the_server_belongs_to_a_route_of_the_root(self) -> None:
        assert selected(loaded(route("root", "/")), "*", method="OPTIONS") == "root"
        assert selected(loaded(route("any", "/{x}"), route("x", "/x")), "*", method="OPTIONS") is None
        assert selected(loaded(route("root", "/", methods=["GET"])), "*", method="OPTIONS") is None


PROTECTED = loaded(route("public", "/"), route("admin", "/admin", auth={"mode": "session"}))


@pytest.mark.parametrize(
    "path",
    [
        "//admin",
        "///admin/users",
        "/admin%2fusers",
        "/admin%2F",
        "/%2Fadmin",
        "/admin%5Cusers",
        "/admin\\users",
        "/\\admin",
        "/admin;x",
        "/admin;x=1/users",
        "/;/admin",
        "/;a=b//admin",
        "/admin%3Bx",
        "/%2f%2fadmin;y",
    ],
)
def test_no_spelling_slips_past_the_route_of_a_path(path: str) -> None:
    with pytest.raises(AmbiguousPath, match="different routes"):
        PROTECTED.match(None, path, "GET")


@pytest.mark.parametrize("path", ["/%61dmin", "/admi%6E/users", "/admin/", "/admin//x", "/admin/a%2Fb", "/admin/;x"])
def test_a_spelling_whose_readings_agree_reaches_the_protected_route(path: str) -> None:
    assert selected(PROTECTED, path) == "admin"


@pytest.mark.parametrize("path", ["/ADMIN", "/admin.", "/admins", "/x/admin", "/%2561dmin", "/admin%23/public"])
def test_what_is_another_path_in_both_readings_is_another_route(path: str) -> None:
    assert selected(PROTECTED, path) == "public"


@pytest.mark.parametrize(
    "path", ["/v2/group%2Fimage/tags", "/v2/a%3Bb", "/v2/a%23b%3Fc%25d", "/v2//x", "/v2/a;v=1/b", "/v2/%252e%252e"]
)
def test_encoded_characters_pass_where_one_route_has_it_all(path: str) -> None:
    table = loaded(route("registry", "/v2/"), route("admin", "/admin", auth={"mode": "session"}), route("all", "/"))
    match = table.match(None, path, "GET")
    assert match is not None
    assert (match.route.id, match.rest) == ("registry", path.removeprefix("/v2/"))


def test_readings_that_lead_to_a_route_and_to_none_are_refused() -> None:
    table = loaded(route("admin", "/admin"), route("detail", "/x/{id}/detail"))
    with pytest.raises(AmbiguousPath):
        table.match(None, "//admin", "GET")
    with pytest.raises(AmbiguousPath):
        table.match(None, "/x/1%2F2/detail", "GET")


class TestWorkspaces:
    table = loaded(route("ws", "/ws/{id}/", auth=WORKSPACE), route("all", "/"))

    @pytest.mark.parametrize("value", [f"{UUID};x", f"{UUID}%3Bx", f"{UUID}%2Fy", "a%2fb", "a%5Cb", "a\\b"])
    def test_readings_that_name_different_workspaces_are_refused(self, value: str) -> None:
        with pytest.raises(AmbiguousPath, match="workspaces"):
            self.table.match(None, f"/ws/{value}/files", "GET")

    @pytest.mark.parametrize("value", [UUID, "caf%c3%a9", "a%2Db", "a%20b", "a%3Ab"])
    def test_an_escape_that_both_readings_understand_alike_passes(self, value: str) -> None:
        match = self.table.match(None, f"/ws/{value}/files", "GET")
        assert match is not None
        assert match.params == {"id": value}

    def test_a_placeholder_that_is_no_workspace_may_differ(self) -> None:
        table = loaded(route("p", "/projects/{name}"))
        match = table.match(None, "/projects/group%2Fname", "GET")
        assert match is not None
        assert match.params == {"name": "group%2Fname"}


class TestEscapesInTemplates:
    def test_a_template_is_normalised_like_a_path(self) -> None:
        table = loaded(route("x", "/%61/caf%c3%a9/"))
        assert table.routes[0].path == "/a/caf%C3%A9/"
        assert selected(table, "/a/caf%C3%a9/y") == "x"

    def test_a_plain_path_does_not_slip_past_a_template_that_is_written_with_an_escape(self) -> None:
        # The loosest reading of /a:b is the loosest reading of the template too.
        table = loaded(route("admin", "/a%3Ab", auth={"mode": "session"}), route("all", "/"))
        assert selected(table, "/a%3ab") == "admin"
        with pytest.raises(AmbiguousPath):
            table.match(None, "/a:b", "GET")

    def test_an_escape_of_a_character_that_no_plain_path_holds_costs_plain_paths_nothing(self) -> None:
        table = loaded(route("x", "/caf%C3%A9"), route("y", "/a%20b"), route("all", "/"))
        assert selected(table, "/a/b") == "all"
        assert table._index._plain_suffices

    def test_a_query_never_opens_a_route(self) -> None:
        with pytest.raises(AmbiguousPath):
            PROTECTED.match(None, "/admin?path=/status", "GET")


class TestReserved:
    table = loaded(route("all", "/"), hosts=["api.example.com"], reservedPaths=["/internal", "/below/", "/a%3Ab"])

    @pytest.mark.parametrize(
        "path",
        [
            "/auth/login",
            "/auth/callback",
            "/auth/logout",
            "/auth/session",
            "/healthz",
            "/readyz",
            "/metrics",
            "/.well-known/acme-challenge/token",
            "/auth/login/",
            "/healthz/live",
            "/internal",
            "/internal/",
            "/internal/x",
            "/below/",
            "/below/x",
            "/%61uth/session",
            "//auth/session",
            "/auth%2fsession",
            "/auth/session;x=1",
            "/auth\\session",
            "/a:b",
            "/a%3ab/c",
        ],
    )
    def test_a_reserved_path_and_what_is_below_it_is_reserved_in_every_spelling(self, path: str) -> None:
        assert self.table.is_reserved(path)

    @pytest.mark.parametrize(
        "path", ["/", "/auth", "/auth/other", "/healthzz", "/internals", "/below", "/x/metrics", "/a", "/METRICS", "*"]
    )
    def test_other_paths_are_not_reserved(self, path: str) -> None:
        assert not self.table.is_reserved(path)

    @pytest.mark.parametrize("path", ["/auth/../metrics", "/metrics%00", "/metrics%"])
    def test_a_path_that_is_refused_is_left_to_the_match_that_refuses_it(self, path: str) -> None:
        assert not self.table.is_reserved(path)
        with pytest.raises(AmbiguousPath):
            self.table.match("api.example.com", path, "GET")

    def test_only_listed_names_are_the_gateways_and_every_name_where_none_is_listed(self) -> None:
        assert self.table.owns_host("api.example.com")
        assert not self.table.owns_host("other.example.com")
        assert loaded(route("all", "/")).owns_host("other.example.com")

    @pytest.mark.parametrize("host", [None, ""])
    def test_a_missing_host_counts_as_the_gateways_so_that_nothing_reserved_is_forwarded(
        self, host: str | None
    ) -> None:
        assert self.table.owns_host(host)

    def test_a_reserved_root_reserves_everything(self) -> None:
        assert loaded(route("x", "/", host="other.test"), hosts=["own.test"], reservedPaths=["/"]).is_reserved("/any")


def outcome_of(table: RouteTable, host: str | None, path: str, method: str) -> Found | str:
    try:
        return table.find(host, path, method)
    except AmbiguousPath as refused:
        return refused.reason


def test_what_is_found_again_is_what_was_found_first() -> None:
    """What is remembered must not leak from one host, path or method to another; a refused path is refused again."""
    table = loaded(
        route("read", "/a/{id}", match={"path": "/a/{id}", "methods": ["GET"]}),
        route("all", "/a/"),
        route("other", "/", match={"path": "/", "host": "b.example"}),
        hosts=["gateway.example"],
    )
    asked = [
        (host, path, method)
        for host in ("gateway.example", "a.example", "b.example", None)
        for path in ("/a/1", "/a/2", "/healthz", "/auth/login", "/a/%2e%2e", "*")
        for method in ("GET", "POST")
    ]
    first = [outcome_of(table, *each) for each in asked]
    assert [outcome_of(table, *each) for each in asked] == first
    for (host, path, method), found in zip(asked, first, strict=True):
        if isinstance(found, Found) and not (table.owns_host(host) and table.is_reserved(path)):
            assert found == Found(False, table.match(host, path, method))
        else:
            assert found in (Found(True, None), "the path holds a dot segment")
    assert len(set(map(repr, first))) > 6


def test_what_callers_make_up_is_remembered_within_a_bound() -> None:
    table = loaded(route("all", "/"))
    for n in range(FOUND_MAX + 100):
        table.find("a.example", f"/{n}", "GET")
    table.find("a.example", "/" + "x" * FOUND_MAX_CHARS, "GET")
    assert len(table._index._found) == FOUND_MAX
    assert ("a.example", "/" + "x" * FOUND_MAX_CHARS, "GET") not in table._index._found
