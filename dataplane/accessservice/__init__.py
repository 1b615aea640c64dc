"""The reference Access service, and the program that checks any other one (§6.1).

    POST /v1/decisions -> token -> question -> policy.rule -> 200 {"allow": …}
    policy file -> PolicyFile -> the last valid Policy

`gateway-access POLICY` serves the operator's policy; `gateway-access --conformance URL` asks a running service every
question of `conformance` and says what is wrong with its answers. One event loop, no state but the policy. What cannot
be decided is never allowed: a bad request is 400, a bug is 500, and the gateway takes both for "no decision".
"""
