-- The room a script runs in: a fresh environment per call without ways out, JSON out, the kube module.
--
-- The chunk receives the host's functions and returns compile, run and encode. A script reaches nothing of it but what
-- `room` hands out. Numbers become texts as Go writes them, because that is what scripts were written and tried against.
-- Longer than other files because it is loaded as one chunk, whose locals are its only walls.

local host = ...
local find, format, match = string.find, string.format, string.match
local gmatch, gsub, lower, upper = string.gmatch, string.gsub, string.lower, string.upper
local concat, floor, huge = table.concat, math.floor, math.huge
local error, loadstring, next, pairs, pcall, unpack = error, loadstring, next, pairs, pcall, unpack
local rawequal, select, setfenv, tonumber, tostring, type = rawequal, select, setfenv, tonumber, tostring, type
local library = { string = string, table = table, math = math, os = os }
local basic = {
  "assert", "error", "ipairs", "next", "pairs", "pcall", "select", "tonumber", "type", "unpack", "xpcall", "_VERSION",
}
local closed = {
  "collectgarbage", "dofile", "getfenv", "getmetatable", "load", "loadfile", "loadstring", "rawequal", "rawget",
  "rawset", "setfenv", "setmetatable", "module", "newproxy",
}
-- All texts share one metatable; it is pointed to the string library of each room.
local texts = getmetatable("")

local LONGEST_ARGUMENT = 1000000
-- Matching takes a piece of the C stack for each part of a pattern.
local LONGEST_PATTERN = 10000
local DEEPEST = 400
local WHOLE = 2 ^ 63

-- Numbers -------------------------------------------------------------------------------------------------------------

-- The fewest significant digits that name this number and no other.
local function digits_of(number)
  for digits = 15, 16 do
    if tonumber(format("%." .. digits .. "g", number)) == number then
      return digits
    end
  end
  return 17
end

local function number_text(number)
  if number ~= number then
    return "NaN"
  elseif number == huge or number == -huge then
    return number > 0 and "+Inf" or "-Inf"
  elseif number == floor(number) and number < WHOLE and number >= -WHOLE then
    return format("%d", number)
  end
  local digits = digits_of(number)
  local exponent = tonumber(match(format("%." .. digits - 1 .. "e", number), "e(.*)$"))
  if exponent >= -4 and exponent < 6 then
    return format("%." .. digits .. "g", number)
  end
  local mantissa, power = match(format("%." .. digits - 1 .. "e", number), "^(.-)e(.*)$")
  mantissa = gsub(mantissa, "(%..-)0+$", "%1")
  mantissa = gsub(mantissa, "%.$", "")
  return mantissa .. "e" .. power
end

local function text_of(value)
  if type(value) == "number" then
    return number_text(value)
  end
  return tostring(value)
end

-- Between the operands of every `..` of a script stands this value: `a .. glue .. b` is evaluated from the right, so that
-- `glue .. b` keeps the text of b and `a .. glue` joins it. Lua itself would write numbers with fourteen digits.
local kept = ""
local glue
local function joinable(value)
  local kind = type(value)
  if kind == "number" then
    return number_text(value)
  elseif kind ~= "string" then
    error("attempt to concatenate a " .. kind .. " value", 3)
  end
  return value
end
glue = setmetatable({}, {
  __concat = function(left, right)
    if rawequal(left, glue) then
      kept = joinable(right)
      return glue
    end
    return joinable(left) .. kept
  end,
})

-- Tables to JSON ------------------------------------------------------------------------------------------------------

local escapes = { ['"'] = '\\"', ["\\"] = "\\\\" }
for code = 0, 31 do
  escapes[string.char(code)] = format("\\u%04x", code)
end

local function quoted(text)
  if find(text, '[%z\1-\31"\\]') then
    text = gsub(text, '[%z\1-\31"\\]', escapes)
  end
  return '"' .. text .. '"'
end

local encode

local function encode_list(list, size, seen, depth)
  local parts = {}
  for index = 1, size do
    local value = list[index]
    if value == nil then
      error("a list has gaps", 0)
    end
    parts[index] = encode(value, seen, depth)
  end
  return "[" .. concat(parts, ",") .. "]"
end

local function encode_table(value, seen, depth)
  if seen[value] then
    error("one table stands in two places or inside itself", 0)
  elseif depth > DEEPEST then
    error("tables are nested deeper than " .. DEEPEST, 0)
  end
  seen[value] = true
  local first = next(value)
  if first == nil then
    seen.empties = true
    return "[]"
  end
  local kind, size, parts = type(first), 0, {}
  if kind ~= "string" and kind ~= "number" then
    error("a key is a " .. kind .. ", expected a text", 0)
  end
  for key, member in pairs(value) do
    if type(key) ~= kind then
      error("a table has both names and numbers for keys", 0)
    end
    size = size + 1
    if kind == "string" then
      parts[size] = quoted(key) .. ":" .. encode(member, seen, depth + 1)
    end
  end
  if kind == "number" then
    return encode_list(value, size, seen, depth + 1)
  end
  return "{" .. concat(parts, ",") .. "}"
end

function encode(value, seen, depth)
  local kind = type(value)
  if kind == "string" then
    return quoted(value)
  elseif kind == "table" then
    return encode_table(value, seen, depth)
  elseif kind == "boolean" then
    return value and "true" or "false"
  elseif kind == "number" then
    if value ~= value or value == huge or value == -huge then
      error("a number is not finite", 0)
    elseif value == floor(value) and value < WHOLE and value >= -WHOLE then
      return format("%d", value)
    end
    return format("%.17g", value)
  end
  error("a value is a " .. kind .. ", which JSON cannot hold", 0)
end

-- The library of scripts ----------------------------------------------------------------------------------------------

local function outcome(name, ok, ...)
  if ok then
    return ...
  end
  local problem = ...
  if type(problem) == "string" then
    -- Lua names a function after the variable that it was called by here.
    problem = gsub(gsub(problem, '^%[string "[^"]*"%]:%d+: ', ""), "^(bad argument #%d+ to )'[^']*'", "%1'" .. name .. "'")
  end
  error(problem, 3)
end

-- A string function that refuses very long arguments.
local function limited(name, call)
  return function(...)
    for index = 1, select("#", ...) do
      local argument = select(index, ...)
      if type(argument) == "string" and #argument > LONGEST_ARGUMENT then
        error("bad argument #" .. index .. " to '" .. name .. "' (longer than a million bytes)", 2)
      end
    end
    return outcome(name, pcall(call, ...))
  end
end

-- A function of patterns; `plainly` is the argument that says that what is looked for is none.
local function matching(call, plainly)
  return function(text, pattern, ...)
    if type(pattern) == "string" and #pattern > LONGEST_PATTERN and not (plainly and select(plainly - 2, ...)) then
      error("pattern too long (more than " .. LONGEST_PATTERN .. " bytes)", 0)
    end
    return call(text, pattern, ...)
  end
end

local function refused(name, why)
  return function()
    error(name .. " " .. why, 2)
  end
end

local quotes = {
  ['"'] = '\\"', ["\\"] = "\\\\", ["\a"] = "\\a", ["\b"] = "\\b", ["\f"] = "\\f", ["\n"] = "\\n", ["\r"] = "\\r",
  ["\t"] = "\\t", ["\v"] = "\\v",
}
for code = 0, 31 do
  quotes[string.char(code)] = quotes[string.char(code)] or format("\\x%02x", code)
end
quotes["\127"] = "\\x7f"

-- %s takes any value and %q writes on one line, as scripts expect of Go.
local function formatted(pattern, ...)
  local values, count = { ... }, 0
  local adapted = gsub(pattern, "%%([-+ #0]*%d*%.?%d*)(.)", function(flags, verb)
    if verb == "%" then
      return nil
    end
    count = count + 1
    if verb == "s" or verb == "q" then
      local value = text_of(values[count])
      values[count] = verb == "q" and '"' .. gsub(value, '[%z\1-\31"\\\127]', quotes) .. '"' or value
      return "%" .. flags .. "s"
    end
    return nil
  end)
  return format(adapted, unpack(values, 1, select("#", ...)))
end

local function cased(plain, name)
  return function(text)
    if type(text) == "string" and find(text, "[\128-\255]") then
      return host[name](text)
    end
    return plain(text)
  end
end

local strings = {}
for name, call in pairs({
  byte = string.byte, char = string.char, find = matching(find, 4), format = formatted, gmatch = matching(gmatch),
  len = string.len, lower = cased(lower, "lower"), upper = cased(upper, "upper"), match = matching(match),
  reverse = string.reverse, sub = string.sub,
}) do
  strings[name] = limited(name, call)
end
for _, name in pairs({ "gsub", "rep", "dump" }) do
  strings[name] = refused("string." .. name, "is closed off for interpreter scripts")
end

local plain_concat = table.concat
local function table_concat(list, separator, first, last)
  if type(list) ~= "table" then
    error("bad argument #1 to 'concat' (table expected, got " .. type(list) .. ")", 2)
  end
  local written = {}
  for index = first or 1, last or #list do
    local value = list[index]
    written[index] = type(value) == "number" and number_text(value) or value
  end
  return outcome("concat", pcall(plain_concat, written, separator, first or 1, last or #list))
end

-- The kube module -----------------------------------------------------------------------------------------------------

local function table_argument(value, name)
  if type(value) ~= "table" then
    error("bad argument #1 to " .. name .. " (table expected, got " .. type(value) .. ")", 3)
  end
  local ok, json = pcall(encode, value, {}, 0)
  if not ok then
    error("bad argument #1 to " .. name .. ": " .. tostring(json), 3)
  end
  return json
end

local function answer(ok, value)
  if not ok then
    error(value, 3)
  end
  return value
end

local function quantity(value, index, name)
  if type(value) ~= "string" then
    error("bad argument #" .. index .. " to " .. name .. " (string expected, got " .. type(value) .. ")", 3)
  end
  return value
end

local kube = {
  resourceAdd = function(...)
    local texts_given = {}
    for index = 1, select("#", ...) do
      local value = select(index, ...)
      if value ~= nil then
        texts_given[#texts_given + 1] = quantity(value, index, "resourceAdd")
      end
    end
    local value = answer(host.resource_add(encode(texts_given, {}, 0)))
    return value
  end,
  getResourceQuantity = function(value)
    local amount = answer(host.resource_quantity(value == nil and "0" or quantity(value, 1, "getResourceQuantity")))
    return amount
  end,
  accuratePodRequirements = function(...)
    if select("#", ...) ~= 1 then
      error("accuratePodRequirements takes exactly one argument", 2)
    end
    local needs = answer(host.pod_requirements(table_argument((...), "accuratePodRequirements")))
    return needs
  end,
  getPodDependencies = function(...)
    if select("#", ...) ~= 2 then
      error("getPodDependencies takes exactly two arguments", 2)
    end
    local template, namespace = ...
    if namespace == nil then
      namespace = "default"
    elseif type(namespace) ~= "string" and type(namespace) ~= "number" then
      error("bad argument #2 to getPodDependencies (string expected, got " .. type(namespace) .. ")", 2)
    end
    local needs = answer(host.pod_dependencies(table_argument(template, "getPodDependencies"), text_of(namespace)))
    return needs
  end,
}

-- Rooms ---------------------------------------------------------------------------------------------------------------

local function copy(source)
  local target = {}
  for name, value in pairs(source) do
    target[name] = value
  end
  return target
end

-- C reads "inf" and "nan" as numbers, which no script expects of a text.
local function number_of(...)
  local text, base = ...
  if base == nil and type(text) == "string" and find(lower(text), "n", 1, true) then
    return nil
  end
  return outcome("tonumber", pcall(tonumber, ...))
end

local shared = { tostring = text_of, print = function() end }
for _, name in pairs(basic) do
  shared[name] = _G[name]
end
shared.tonumber = number_of
for _, name in pairs(closed) do
  shared[name] = refused(name, "is closed off for interpreter scripts")
end
local tables = copy(library.table)
tables.concat = table_concat
local maths = copy(library.math)
local clock = { time = library.os.time, date = library.os.date }

local function room(hidden)
  local env = copy(shared)
  env._G = env
  env.string, env.table, env.math, env.os = copy(strings), copy(tables), copy(maths), copy(clock)
  local loaded = {}
  env.package = { loaded = loaded, preload = {}, path = "", cpath = "" }
  env.require = function(name)
    if name ~= "kube" then
      error("module " .. text_of(name) .. " not found: interpreter scripts can only require kube", 2)
    end
    loaded.kube = loaded.kube or copy(kube)
    return loaded.kube
  end
  env[hidden] = glue
  texts.__index = env.string
  return env
end

-- What a returned value is: its type, and a text for a table, the value for anything a host can hold; for a table that
-- is no JSON the type "unfit" and the reason; whether empty tables are among it.
local function described(value)
  local kind = type(value)
  if kind ~= "table" then
    return kind, (kind == "number" or kind == "boolean") and value or nil, false
  end
  local seen = {}
  local ok, json = pcall(encode, value, seen, 0)
  if not ok then
    return "unfit", tostring(json), false
  end
  return kind, json, seen.empties or false
end

local function message(problem)
  if type(problem) == "string" then
    return problem
  elseif type(problem) == "number" then
    return number_text(problem)
  end
  return "the script raised a " .. type(problem)
end

local function finish(ok, first, second)
  if not ok then
    return false, message(first)
  end
  local kind, value, empties = described(first)
  return true, kind, value, empties, described(second)
end

local function compile(source)
  -- Never compiled code: the host puts a line of source before every script.
  return loadstring(source, "=script")
end

local function run(chunk, hidden, name, ...)
  local env = room(hidden)
  setfenv(chunk, env)
  local ok, problem = pcall(chunk)
  if not ok then
    return false, message(problem)
  end
  local entry = env[name]
  if type(entry) ~= "function" then
    if entry == nil then
      return false, "the script defines no function " .. name
    end
    return false, name .. " is a " .. type(entry) .. ", expected a function"
  end
  return finish(pcall(entry, ...))
end

return compile, run
