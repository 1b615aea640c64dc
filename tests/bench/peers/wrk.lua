-- What wrk measured, as one line of JSON; and, where BENCH_SEED is set, another path for each request.

local seed = os.getenv("BENCH_SEED")

if seed then
  local before, after
  local count = 0

  -- The request is put together once: formatting it each time would cost more than many a proxy takes for it.
  function init()
    local whole = wrk.format(nil, wrk.path .. "/@")
    local at = whole:find("@", 1, true)
    before, after = whole:sub(1, at - 1) .. seed .. "-", whole:sub(at + 1)
  end

  function request()
    count = count + 1
    return before .. count .. after
  end
end

function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    '\n{"requests":%d,"duration_us":%d,"bytes":%d,"p50_us":%d,"p99_us":%d,' ..
    '"errors":{"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d}}\n',
    summary.requests, summary.duration, summary.bytes, latency:percentile(50), latency:percentile(99),
    errors.connect, errors.read, errors.write, errors.status, errors.timeout))
end
