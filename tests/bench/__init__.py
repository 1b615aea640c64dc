"""Benchmarks, run by hand and never collected as tests: `python -m tests.bench`, described in docs/performance.md.

    compare  the gateway and other proxies before one upstream, in interleaved rounds, under load from wrk
    overload  twice and three times what it can do: goodput, refusals, and what is left of the flood
    workers  two workers beside one process: CPU time a request, throughput, how the load is spread, memory
    micro    the steps of a request one by one, and what memory each kept thing takes

Everything is started on loopback and free ports, and stopped at the end. Nothing is timed that was not first seen to
answer rightly, and a timed run in which anything but the expected answer came ends the whole benchmark (`BenchError`).
"""
