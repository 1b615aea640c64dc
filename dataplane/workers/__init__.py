"""How the data plane becomes processes: one, or several on one port (`GATEWAY_WORKERS`, CONTRACT "Programs").

    gateway run -> serve_alone                                   one process
                -> serve_several -> Supervisor --fork--> work    several: one supervisor, N workers

    supervisor  keeps the port, forks, replaces, adds up numbers, drains; one thread, no event loop, no request
    worker      the data plane of one process, on a listening socket that the supervisor has bound for its place
    link        a socket between the two: beats and numbers up, questions down; its end is the other's end

A worker that ends is forked anew, at once or after a pause. Its socket stays open meanwhile, so callers in its queue
are served by its successor. A supervisor that is gone ends its workers in order; a worker that stands still is killed.
"""
