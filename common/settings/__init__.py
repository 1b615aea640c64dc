"""The environment to frozen settings (§4.1, §4.3): with all of it, or with every problem of it reported at once.

    variables: one table -> read: texts and files -> parsers: values -> load: what goes together, what production asks
                         -> reference: docs/configuration.md

Nothing here reads `os.environ`, opens a connection or looks at the clock. No message repeats a value, and a secret is a
`Secret`, which shows itself on `reveal()` alone. Everything runs once, before a loop does.
"""
