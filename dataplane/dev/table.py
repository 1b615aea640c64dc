"""The demo's route table and Access policy: each kind of route that the gateway knows, once."""

from __future__ import annotations

from typing import Any

from dataplane.dev.accounts import MEMBER, WORKSPACE_ID


def route_table(upstream: str) -> dict[str, Any]:
    """The table of `gateway dev`, every route at the sample upstream."""

    def route(name: str, path: str, auth: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {"id": name, "match": {"path": path}, "upstream": upstream, "auth": auth, **more}

    return {
        "version": 2,
        "routes": [
            route("overview", "/", {"mode": "none"}),
            route("account", "/me", {"mode": "session"}, crossSite="strict"),
            route(
                "workspace",
                "/workspaces/{workspaceId}",
                {"mode": "any", "workspace": {"param": "workspaceId", "requireUuid": True}},
            ),
            route("stream-page", "/stream", {"mode": "session"}),
            route("stream", "/events", {"mode": "any"}),
            route("api", "/api/", {"mode": "jwt-only"}),
        ],
    }


def access_policy() -> dict[str, Any]:
    """What the reference Access service decides by: one demo account may use the demo workspace."""
    return {"version": 1, "grants": [{"workspace": WORKSPACE_ID, "route": "*", "subjects": [MEMBER.subject]}]}
