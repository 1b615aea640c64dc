"""The console: a page at `/console` for people, over the same API as everything else (CONTRACT §12.7).

    GET /console -> index.html -> stylesheets and ES modules of this package -> fetch("/v1/…") with the page's token

It has no endpoint of its own, and no right: the page holds the token that somebody typed, in its memory, and the API
judges each request as if `curl` had sent it. Its files are hand-written, are served as they are, and load nothing from
anywhere else.
"""
