"""Hours at full load: whether anything grows with the traffic. `python -m tests.bench soak`.

wrk, as fast as it goes       many callers, paths, bodies, refusals          (load.lua)
callers of every bad habit    aborts, bad heads, WebSockets, TLS, logins     (callers.py, habits.py)
reloads, good and bad ones    another table every few seconds                (run.py)
    └── the gateway, which tells what it holds (watched.py)
"""
