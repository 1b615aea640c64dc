"""Everything that a gateway stands between, in one process on loopback, for a person to try (`gateway dev`).

What runs, and who asks whom::

    browser, curl -> gateway -> sample upstream (pages, JSON, events)
                        |-----> development provider (discovery, keys, code exchange)
                        |-----> reference Access service
    browser -> development provider (sign-in page)

All of it lives in one event loop and one temporary folder, and ends with it. Every key and secret is made at start and
written nowhere, so there is nothing here that a deployment could copy by mistake; and it refuses to start in
production. Nothing of this package is imported by the data plane.
"""
