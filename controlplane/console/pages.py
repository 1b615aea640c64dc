"""The console's files over HTTP: read once, known by a hash of their bytes, under the strictest policy that fits."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import PurePosixPath

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

PAGE = "index.html"

_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'none'; frame-ancestors 'none'; base-uri 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""No inline script or style, no other origin, no frame around it, and no way to make markup or code of a text."""

HEADERS = {
    "content-security-policy": POLICY,
    # A new release is seen with the next load; an unchanged file costs a 304.
    "cache-control": "no-cache",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}

router = APIRouter(prefix="/console", include_in_schema=False)


@dataclass(frozen=True, slots=True)
class File:
    """One file of the console."""

    body: bytes
    media_type: str
    etag: str


@cache
def files() -> dict[str, File]:
    """Every file by its name."""
    found = {}
    for entry in (resources.files(__package__) / "assets").iterdir():
        media_type = _MEDIA_TYPES.get(PurePosixPath(entry.name).suffix)
        if media_type is not None:
            body = entry.read_bytes()
            found[entry.name] = File(body, media_type, f'"{hashlib.sha256(body).hexdigest()[:32]}"')
    return found


@router.get("")
async def page(request: Request) -> Response:
    """The one page there is; what it shows is behind the `#` of its address."""
    return _answer(request, PAGE)


@router.get("/")
async def page_with_slash() -> Response:
    """The page's links are relative to `/console`, so that it also works below the path of a proxy."""
    return RedirectResponse("../console", status_code=308, headers=HEADERS)


@router.get("/{name}")
async def asset(request: Request, name: str) -> Response:
    """A stylesheet, a module or the icon."""
    if name == PAGE:
        raise HTTPException(404)
    return _answer(request, name)


def _answer(request: Request, name: str) -> Response:
    file = files().get(name)
    if file is None:
        raise HTTPException(404)
    headers = {**HEADERS, "etag": file.etag}
    if _has(request.headers.getlist("if-none-match"), file.etag):
        return Response(status_code=304, headers=headers)
    return Response(file.body, headers=headers, media_type=file.media_type)


def _has(sent: list[str], etag: str) -> bool:
    """Whether `If-None-Match` holds the entity tag, by weak comparison (RFC 9110 §13.1.2)."""
    tags = [tag.strip().removeprefix("W/") for value in sent for tag in value.split(",")]
    return etag in tags or "*" in tags
