"""Who is calling: the step of the dispatcher that answers it, by a session cookie or a bearer token (§5.1, §5.3).

    step     picks the credential that the route's mode selects, and judges that one alone
    sessions what a browser presents, against the store; opening, extending and ending a session
    cookies  the two cookies of the gateway, byte for byte
    pages    whether a request opens a page that a person looks at
    redirects where a login may lead

A credential that is present but bad is refused, never replaced by another. What cannot be judged, because the store or
the provider is away, is 503: it is no bad credential, and no cookie is cleared for it.
"""
