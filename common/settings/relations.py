"""Variables that are right alone and wrong together, for every program that reads them."""

from __future__ import annotations

import math
from collections.abc import Mapping

from common.state.budgets import MAX_BUCKETS


def rate_window_problems(values: Mapping[str, object]) -> list[str]:
    """What is wrong with the window of the rate limits and its buckets. `values` are by variable name."""
    window, bucket = values.get("GATEWAY_RATE_LIMIT_WINDOW_MS"), values.get("GATEWAY_RATE_LIMIT_BUCKET_MS")
    if not isinstance(window, int) or not isinstance(bucket, int):
        return []
    if bucket > window:
        return ["GATEWAY_RATE_LIMIT_BUCKET_MS: is longer than GATEWAY_RATE_LIMIT_WINDOW_MS; make it shorter"]
    if math.ceil(window / bucket) > MAX_BUCKETS:
        return [
            f"GATEWAY_RATE_LIMIT_BUCKET_MS: cuts the window into more than {MAX_BUCKETS} buckets; make it "
            f"at least {math.ceil(window / MAX_BUCKETS)}"
        ]
    return []
