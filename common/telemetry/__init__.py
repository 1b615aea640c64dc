"""What operators see: log lines, metrics, the names of a request and of its trace (§12.1, §12.2, §7.5).

    event, request -> log -> redact -> line_writer -> descriptor, in batches
    counts -> metrics -> the Prometheus text, when it is scraped

Instruments belong to one event loop and take no lock; a line may come from any thread. Nothing raises into what it
describes or waits for a reader: what a slow one cannot take is dropped and counted.
"""
