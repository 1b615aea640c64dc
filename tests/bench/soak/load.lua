-- Requests of many kinds, as fast as they are answered: callers behind a proxy, paths that come again and that do not,
-- bodies, no credential, a foreign workspace, a path that no route knows.

local cookie, prefix, seed = os.getenv("BENCH_COOKIE"), os.getenv("BENCH_PREFIX"), os.getenv("BENCH_SEED")
local stranger = "/workspaces/00000000-0000-4000-8000-000000000000"
local body = string.rep("x", 20000)
local count = 0

math.randomseed(os.time())

function request()
  count = count + 1
  local dice, path, method, sent = math.random(100), prefix .. "/items?page=" .. math.random(40), "GET", nil
  local headers = {
    ["Host"] = "bench",
    ["accept"] = "application/json",
    ["user-agent"] = "bench/" .. math.random(300),
    ["cookie"] = "theme=dark; gateway_session=" .. cookie,
    ["x-forwarded-for"] = "10.0." .. math.random(0, 63) .. "." .. math.random(0, 60),
  }
  if dice > 98 then path = prefix .. "/1MB"
  elseif dice > 94 then path = prefix .. "/10kB"
  elseif dice > 88 then method, sent = "POST", body:sub(1, math.random(20000))
  elseif dice > 82 then headers["cookie"] = nil
  elseif dice > 78 then path = stranger .. "/items"
  elseif dice > 75 then path = "/nowhere/" .. seed .. count
  elseif dice > 72 then headers["cookie"] = "gateway_session=" .. seed .. count
  elseif dice > 40 then path = prefix .. "/new/" .. seed .. "/" .. count
  elseif dice > 30 then headers["x-forwarded-for"] = "203.0.113." .. math.random(4)
  end
  if sent then headers["origin"] = os.getenv("BENCH_ORIGIN") end
  return wrk.format(method, path, headers, sent)
end

function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format('\n{"requests":%d,"refused":%d,"read":%d,"write":%d,"connect":%d,"timeout":%d}\n',
    summary.requests, errors.status, errors.read, errors.write, errors.connect, errors.timeout))
end
