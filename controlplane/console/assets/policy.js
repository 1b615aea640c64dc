// What a route's policy is, as the table says it: its own value, else that of `defaults`, else the deployment's.

export const MODES = {
  none: "Anyone",
  session: "Session",
  "jwt-only": "Bearer token",
  any: "Session or bearer token",
};

export const listOf = (value) => (Array.isArray(value) ? value : value === undefined ? [] : [value]);

const objectOf = (value) => (value !== null && typeof value === "object" && !Array.isArray(value) ? value : {});

/** The routes of a table, each an object. */
export const routesOf = (table) => listOf(objectOf(table).routes).map(objectOf);

const dig = (value, path) => path.split(".").reduce((found, step) => objectOf(found)[step], value);

/** `policy(table, route)(path)` is `{ value, from }`: from `route`, `defaults`, or `deployment` without a value. */
export function policy(table, route) {
  const defaults = objectOf(objectOf(table).defaults);
  return (path) => {
    const own = dig(route, path);
    if (own !== undefined) return { value: own, from: "route" };
    const common = dig(defaults, path);
    return common !== undefined ? { value: common, from: "defaults" } : { value: undefined, from: "deployment" };
  };
}

/** Who may call: `{ mode, workspace, access }`; a route of mode `none` inherits no workspace. */
export function callers(table, route) {
  const of = policy(table, route);
  const mode = of("auth.mode").value ?? "";
  const workspace = mode === "none" ? undefined : of("auth.workspace.param").value;
  return { mode, workspace, access: mode !== "none" && (route.accessCheck === true || workspace !== undefined) };
}

/** An upstream's URL without the password that version 1 of the table lets it hold. */
export const withoutPassword = (url) => String(url).replace(/^([a-z]+:\/\/)[^/@]*@/i, "$1…@");

/** What a search finds a route by. */
export function searchable(route) {
  const match = objectOf(route.match);
  return [route.id, match.host, match.path, ...listOf(match.methods), ...listOf(route.upstream).map(withoutPassword)]
    .filter((one) => one !== undefined)
    .join("\n")
    .toLowerCase();
}
