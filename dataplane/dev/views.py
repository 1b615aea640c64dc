"""The pages of the sample upstream, as functions of what it saw."""

from __future__ import annotations

from urllib.parse import quote

from dataplane.dev.accounts import GUEST, MEMBER, WORKSPACE_ID
from dataplane.dev.markup import document, text
from dataplane.dev.seen import Seen, from_gateway

WORKSPACE_PATH = f"/workspaces/{WORKSPACE_ID}"

_PLACES = (("/", "Overview"), ("/me", "Who am I"), (WORKSPACE_PATH, "Workspace"), ("/stream", "Live stream"))
_CURRENT = ' aria-current="page"'
_SIGN_OUT = (
    '<form method="post" action="/auth/logout"><button class="button plain" type="submit">Sign out</button></form>'
)


def overview() -> str:
    """The page that everyone may read. Who reads it, the gateway does not tell: the browser asks it itself."""
    body = f"""<h1>Wicketgate is running</h1>
<p class="lead">This page comes from a sample upstream behind the gateway, on a route that asks for no identity.
The other pages are on routes that do.</p>
<div class="grid">
<section class="card"><h2>Who am I</h2>
<p>Needs a session. Shows every header the upstream saw, and whether the gateway's signature over your identity
holds.</p>
<p><a class="button plain" href="/me">See your identity</a></p></section>
<section class="card"><h2>Workspace</h2>
<p>The gateway asks Access first. <strong>{text(MEMBER.email)}</strong> may open it,
<strong>{text(GUEST.email)}</strong> gets a 403.</p>
<p><a class="button plain" href="{WORKSPACE_PATH}">Open the workspace</a></p></section>
<section class="card"><h2>Live stream</h2>
<p>One event a second, passed on as it comes.</p>
<p><a class="button plain" href="/stream">Watch the stream</a></p></section>
</div>"""
    return _framed("Wicketgate is running", "/", body, who=_ask_the_gateway("/"), scripts=("session.js",))


def account(seen: Seen) -> str:
    """Who the caller is, as the upstream knows it."""
    body = f"""<h1>Who am I</h1>
<p class="lead">What this upstream received, and what it could prove.</p>
{_identity(seen)}{_headers(seen)}"""
    return _framed("Who am I", "/me", body, who=_who(seen, "/me"))


def workspace(seen: Seen) -> str:
    """The workspace that Access let the caller into."""
    named = text(seen.workspace_id) or "none"
    body = f"""<h1>The demo workspace</h1>
<p class="lead">You are here because Access said yes to the gateway, before this upstream heard of the request.</p>
<section class="card"><h2>Workspace</h2><p>Signed by the gateway: <code>{named}</code></p></section>
{_identity(seen)}{_headers(seen)}"""
    return _framed("The demo workspace", WORKSPACE_PATH, body, who=_who(seen, WORKSPACE_PATH))


def stream(seen: Seen) -> str:
    """A page that reads server-sent events through the gateway."""
    body = """<h1>Live stream</h1>
<p class="lead">Each line below is one server-sent event, shown when it arrived.</p>
<section class="card"><h2>Events</h2>
<p role="status" data-state>Connecting…</p>
<ol class="events" data-events></ol>
<noscript><p>This page needs JavaScript to show the events.</p></noscript></section>"""
    return _framed("Live stream", "/stream", body, who=_who(seen, "/stream"), scripts=("stream.js",))


def not_found(seen: Seen) -> str:
    """For an address that the upstream does not serve."""
    body = f"""<h1>Nothing is served here</h1>
<p class="lead">The gateway passed the request on, but the sample upstream has no page at
<code>{text(seen.path)}</code>.</p>"""
    return _framed("Nothing is served here", "", body, who="")


def _framed(title: str, here: str, body: str, *, who: str, scripts: tuple[str, ...] = ()) -> str:
    places = "".join(
        f'<li><a href="{path}"{_CURRENT if path == here else ""}>{name}</a></li>' for path, name in _PLACES
    )
    header = f'<span class="brand">Wicketgate</span><nav aria-label="Pages"><ul>{places}</ul></nav>{who}'
    return document(title, body, header=header, scripts=scripts)


def _who(seen: Seen, here: str) -> str:
    if not seen.verified:
        return f'<div class="who">{_sign_in(here)}</div>'
    return f'<div class="who"><span>{text(seen.email or seen.subject)}</span>{_SIGN_OUT}</div>'


def _ask_the_gateway(here: str) -> str:
    """Both states; the page's script shows the second one when there is a session."""
    return (
        f'<div class="who" data-session><span data-signed-out>{_sign_in(here)}</span>'
        f'<span class="who" data-signed-in hidden><span data-name></span>{_SIGN_OUT}</span></div>'
    )


def _sign_in(here: str) -> str:
    return f'<a class="button" href="/auth/login?redirect={quote(here, safe="")}">Sign in</a>'


def _identity(seen: Seen) -> str:
    if seen.verified:
        verdict = '<p class="verdict verified">The identity signature is valid.</p>'
        caller = f"<p>Subject <code>{text(seen.subject)}</code>, email <code>{text(seen.email) or 'none'}</code></p>"
    else:
        verdict = f'<p class="verdict refused">No valid identity signature: {text(seen.verdict)}.</p>'
        caller = "<p>So this upstream believes none of the identity headers.</p>"
    return f'<section class="card"><h2>Identity</h2>{verdict}{caller}</section>'


def _headers(seen: Seen) -> str:
    # What the gateway wrote comes first: it is what the page is about.
    ordered = sorted(seen.headers, key=lambda header: not from_gateway(header[0]))
    rows = "".join(_row(name, value) for name, value in ordered)
    return f"""<section class="card"><div class="table" tabindex="0" role="region" aria-label="Headers"><table>
<caption>{text(seen.method)} {text(seen.path + seen.query)} with {len(seen.headers)} headers</caption>
<thead><tr><th scope="col">Name</th><th scope="col">Value</th></tr></thead>
<tbody>{rows}</tbody></table></div></section>"""


def _row(name: str, value: str) -> str:
    mark = ' <span class="mark">gateway</span>' if from_gateway(name) else ""
    return f'<tr><th scope="row">{text(name)}{mark}</th><td>{text(value)}</td></tr>'
