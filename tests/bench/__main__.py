"""The command line: `python -m tests.bench WHAT …`; see `--help`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.bench.compare import compare
from tests.bench.contenders import CONTENDERS, chosen
from tests.bench.growth import GROWTH
from tests.bench.machine import BenchError, say


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    kinds = ("compare", "growth", "micro", "overload", "scale", "soak", "state", "tls", "websocket", "workers")
    parser.add_argument("what", nargs="?", choices=kinds, default="compare")
    parser.add_argument("--rounds", type=int, default=5, help="how often each contender is timed (%(default)s)")
    parser.add_argument("--seconds", type=int, default=3, help="how long each time (%(default)s)")
    parser.add_argument(
        "--only",
        default="",
        help=f"contenders: {','.join(each.name for each in CONTENDERS)}; of growth: {','.join(GROWTH)}",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured to FILE")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="compare, growth: draw what was measured")
    parser.add_argument("--counts", default="", help="growth: how many there are, as in 1000,1000000")
    parser.add_argument("--stores", default="", help="growth: of memory,redis,postgres, those to measure")
    parser.add_argument("--slots", type=int, default=100, help="overload: slots for an upstream (%(default)s)")
    parser.add_argument("--minutes", type=float, default=60, help="soak: how long (%(default)s)")
    parser.add_argument("--trace", action="store_true", help="soak: tell which lines hold the memory; much slower")
    parser.add_argument("--short", action="store_true", help="one round of one second: that it works, not how fast")
    return parser


def main() -> int:
    options = _parser().parse_args()
    rounds, seconds = (1, 1) if options.short else (options.rounds, options.seconds)
    try:
        if options.what == "micro":
            from tests.bench.micro import micro

            micro(short=options.short, json_file=options.json)
        elif options.what == "tls":
            from tests.bench.tls import tls

            tls(short=options.short, json_file=options.json)
        elif options.what == "websocket":
            from tests.bench.websocket import websocket

            websocket(rounds=rounds, seconds=seconds, short=options.short, json_file=options.json)
        elif options.what == "overload":
            from tests.bench.overload import overload

            slots, short = options.slots, options.short
            overload(rounds=rounds, seconds=seconds, slots=slots, short=short, json_file=options.json)
        elif options.what == "growth":
            from tests.bench.growth.run import growth

            growth(
                only=options.only,
                rounds=rounds,
                seconds=seconds,
                short=options.short,
                json_file=options.json,
                plots=options.plots,
                counts=[int(count) for count in options.counts.split(",") if count],
                stores=[store for store in options.stores.split(",") if store],
            )
        elif options.what == "soak":
            from tests.bench.soak.run import soak

            minutes = 0.3 if options.short else options.minutes
            return 0 if soak(minutes=minutes, json_file=options.json, trace=options.trace) else 1
        elif options.what == "workers":
            from tests.bench.workers import workers

            workers(rounds=rounds, seconds=seconds, short=options.short, json_file=options.json)
        elif options.what == "state":
            from tests.bench.state.run import state

            # Many short times: hundreds of figures come of one run.
            state(rounds=rounds, seconds=0.05 if options.short else seconds / 6, json_file=options.json)
        elif options.what == "scale":
            from tests.bench.state.scale import scale

            scale(short=options.short, json_file=options.json)
        else:
            compare(
                chosen(options.only),
                rounds=rounds,
                seconds=seconds,
                short=options.short,
                json_file=options.json,
                plots=options.plots,
            )
    except BenchError as error:
        say(f"The benchmark failed: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
