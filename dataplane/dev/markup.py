"""The frame that every page of `gateway dev` shares, and the headers that go with a page.

Pages fetch nothing but the stylesheet and scripts of this package, so they work without a network. `body` arguments are
markup; whatever came from outside is escaped where it is put into markup, with `text`.
"""

from __future__ import annotations

import html
from importlib import resources
from pathlib import PurePosixPath

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

_MEDIA_TYPES = {".css": "text/css", ".js": "text/javascript"}

_DOCUMENT = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/assets/style.css">
</head>
<body>
<header><div>{header}</div></header>
<main{classes}>
{body}
</main>
{scripts}
</body>
</html>
"""


def text(value: str) -> str:
    """`value` as it may stand in markup and in a quoted attribute."""
    return html.escape(value)


def document(title: str, body: str, *, header: str, narrow: bool = False, scripts: tuple[str, ...] = ()) -> str:
    """A whole page. `scripts` are names of this package's scripts."""
    return _DOCUMENT.format(
        title=text(title),
        header=header,
        body=body,
        classes=' class="narrow"' if narrow else "",
        scripts="".join(f'<script src="/assets/{name}" defer></script>' for name in scripts),
    )


def page(markup: str, *, form_targets: tuple[str, ...] = (), status: int = 200) -> HTMLResponse:
    """A response that may load only its own style and scripts and send forms only to itself and `form_targets`.

    A browser holds the redirect after a form to `form-action` too, so the origins that one leads to belong in
    `form_targets`.
    """
    targets = " ".join(("'self'", *form_targets))
    policy = (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; "
        f"form-action {targets}; base-uri 'none'; frame-ancestors 'none'"
    )
    headers = {
        "content-security-policy": policy,
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        # Not `no-referrer`: under that a browser's own form says `Origin: null`, which the cross-site guard refuses.
        "referrer-policy": "same-origin",
    }
    return HTMLResponse(markup, status_code=status, headers=headers)


async def asset(request: Request) -> Response:
    """The package's own stylesheet and scripts."""
    name = request.path_params["name"]
    media_type = _MEDIA_TYPES.get(PurePosixPath(name).suffix)
    file = resources.files(__package__) / "assets" / name
    if media_type is None or not file.is_file():
        return PlainTextResponse("Nothing is served at this address.\n", status_code=404)
    headers = {"cache-control": "no-cache", "x-content-type-options": "nosniff"}
    return Response(file.read_bytes(), media_type=media_type, headers=headers)
