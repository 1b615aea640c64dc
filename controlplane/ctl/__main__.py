"""`python -m controlplane.ctl`: the program `gatewayctl` where its script is not on the path."""

from __future__ import annotations

from controlplane.ctl import main

main()
