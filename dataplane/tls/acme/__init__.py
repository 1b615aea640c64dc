"""A certificate from an ACME authority (RFC 8555), obtained once for a deployment and renewed by itself (§11.5).

    keeper ─ reads ─> vault ─ opens ─> sealing          every replica, every half minute
      │  plan: what is next?
      └─ lease ─> attempt ─> authority (network, thread)  one replica at a time
                     └─────> obtain ─> challenges         shown in the state, or by the zone's writer

What is next is a plain function of what is stored, the time and the lease (`plan`). Records are values with their
bytes (`records`), and leave this process sealed. The library that speaks to the authority blocks, so it runs in threads
of its own; everything else belongs to the gateway's loop. Whatever fails leaves what is served as it is.
"""
