"""`gateway run` with several workers and shorter times: `python -m tests.support.run_workers HANG_AFTER_S STEADY_S`."""

from __future__ import annotations

import os
import sys

from common.settings.load import load_gateway_settings
from dataplane.workers import restarts
from dataplane.workers.several import serve_several

if __name__ == "__main__":
    restarts.STEADY_S = float(sys.argv[2])
    sys.exit(serve_several(load_gateway_settings(os.environ), 1, hang_after_s=float(sys.argv[1])))
