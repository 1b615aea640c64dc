"""The description of the API: made from the code, served at `/openapi.json`, and shown at `/docs` by Swagger UI.

`python -m controlplane.openapi > openapi/control.json` writes the published copy; a test holds it to the code.
"""

from __future__ import annotations

import json
import sys
from functools import lru_cache
from importlib.resources import files
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute

from common.routetable.schema import route_table_components
from controlplane.documentation import REQUEST_ID

router: APIRouter = APIRouter(include_in_schema=False)

VERSION = "1.0.0"
SUMMARY = "Route table, audit trail, sessions and replicas of Wicketgate"
DESCRIPTION = """\
Acts on the shared state that the gateways read. Every answer is JSON and carries `x-request-id`. An answer that is not
a success has `error`, a code that programs decide by, and `message`, for people; 400 has `errors` too, all of them.

Each token carries one scope, and none includes another: `read` for every GET, validation and comparison, `operate`
for revoking sessions and dropping cached decisions, `config` for writing the route table. `operate` and `config` may
read what they act on. The fifth unknown token from an address in 60 seconds is its last for a while: 429. A request
without one is 401, and is not counted. 503 says when to come back: `state_unavailable` or, where too much is asked at
once, `overloaded`.
"""
TAGS = [
    {"name": "config", "description": "The route table and its revisions."},
    {"name": "replicas", "description": "What each gateway serves."},
    {"name": "sessions", "description": "Who is signed in, and their end."},
    {"name": "decisions", "description": "What Access decided and gateways still use."},
    {"name": "audit", "description": "Who changed what."},
    {"name": "me", "description": "As whom a token acts."},
    {"name": "process", "description": "Whether this process runs, and what it counted."},
]


PAGE = b"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Wicketgate control plane</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/docs/swagger-ui.css">
</head>
<body>
<div id="reference"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
"""
# No validator of somebody else's, no search for tokens in an address, nothing kept in the browser.
START = b"""SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#reference",
  deepLinking: true,
  validatorUrl: null,
  queryConfigEnabled: false,
  persistAuthorization: false,
});
"""
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
ASSETS = {"swagger-ui-bundle.js": "text/javascript; charset=utf-8", "swagger-ui.css": "text/css; charset=utf-8"}


def openapi(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI 3.1 document of the application."""
    document = get_openapi(
        title="Wicketgate control plane",
        version=VERSION,
        summary=SUMMARY,
        description=DESCRIPTION,
        routes=app.routes,
        tags=TAGS,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
    )
    for path in document["paths"].values():
        for operation in path.values():
            _finish(operation)
    for route in (route for one in app.state.routers for route in one.routes if isinstance(route, APIRoute)):
        if route.include_in_schema:
            _give_examples(document["paths"][route.path_format], route)
    schemas = document["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas.update(route_table_components())
    schemas["RevisionWithTable"]["properties"]["table"] = {"$ref": "#/components/schemas/RouteTable"}
    return document


def openapi_text(app: FastAPI) -> str:
    """The document as the published file holds it."""
    return json.dumps(openapi(app), indent=2, ensure_ascii=False) + "\n"


def _finish(operation: dict[str, Any]) -> None:
    # FastAPI's own shape of a validation error, which is never sent.
    operation["responses"].pop("422", None)
    for parameter in operation.get("parameters", ()):
        parameter["schema"] = _sent(parameter["schema"])
    for response in operation["responses"].values():
        response["headers"] = {**response.get("headers", {}), **REQUEST_ID}


def _give_examples(path: dict[str, Any], route: APIRoute) -> None:
    """FastAPI leaves null out of what it writes, and an example without it would be no answer of ours."""
    for method in route.methods or ():
        for status, response in route.responses.items():
            content = path[method.lower()]["responses"][str(status)]["content"]
            for media_type, shown in response["content"].items():
                content[media_type].update({key: shown[key] for key in ("example", "examples") if key in shown})


def _sent(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a parameter that is there: an absent one is not `null`, as the model behind it says."""
    options = [option for option in schema.get("anyOf", ()) if option != {"type": "null"}]
    kept = {key: value for key, value in schema.items() if key not in ("anyOf", "title", "description")}
    return {**kept, **options[0]} if len(options) == 1 else kept


@router.get("/openapi.json", operation_id="getOpenapi")
async def description(request: Request) -> JSONResponse:
    """The document that `openapi` makes."""
    app: FastAPI = request.app
    if app.openapi_schema is None:
        app.openapi_schema = openapi(app)
    return JSONResponse(app.openapi_schema)


@router.get("/docs", operation_id="getReference")
async def reference() -> Response:
    """The page that shows it. All that it needs is served here; it reaches nothing else."""
    return Response(PAGE, media_type="text/html; charset=utf-8", headers={"content-security-policy": CONTENT_POLICY})


@router.get("/docs/start.js", operation_id="getReferenceStart")
async def start() -> Response:
    return Response(START, media_type="text/javascript; charset=utf-8")


@router.get("/docs/swagger-ui-bundle.js", operation_id="getReferenceScript")
async def script() -> Response:
    return asset("swagger-ui-bundle.js")


@router.get("/docs/swagger-ui.css", operation_id="getReferenceStyle")
async def style() -> Response:
    return asset("swagger-ui.css")


def asset(name: str) -> Response:
    """A file of Swagger UI, as an installed package brings it."""
    return Response(_asset(name), media_type=ASSETS[name])


@lru_cache(maxsize=len(ASSETS))
def _asset(name: str) -> bytes:
    return files("fastapi_swagger").joinpath("resources", name).read_bytes()


if __name__ == "__main__":
    from controlplane.app import build_api

    sys.stdout.write(openapi_text(build_api()))
