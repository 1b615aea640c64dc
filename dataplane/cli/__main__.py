"""`python -m dataplane.cli`: the program `gateway` where its script is not on the path."""

from __future__ import annotations

from dataplane.cli import main

main()
