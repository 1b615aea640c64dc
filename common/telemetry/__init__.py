"""What operators see: log lines, metrics, the names of a request and of its trace (§12.1, §12.2, §7.5).

    event, request -> log -> redact -> line_writer -> descriptor, in batches
    counts -> metrics -> the Prometheus text, when it is scraped

All of it belongs to one event loop and takes no lock. It never raises into what it describes and never waits for a
reader: what a slow one cannot take is dropped and counted.
"""
