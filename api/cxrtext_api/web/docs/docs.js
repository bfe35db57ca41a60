// The API's description, drawn from /openapi.json.

import { byId, element } from "../lib/dom.js";

const nameOf = (reference) => reference.split("/").pop();

/** The type of a schema in a few words; a link where it has a name. */
function typeOf(schema) {
  if (!schema) return "anything";
  if (schema.$ref) {
    const name = nameOf(schema.$ref);
    return element("a", { href: `#schema-${name}` }, name);
  }
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) return join(choices.filter((one) => one.type !== "null").map(typeOf), " or ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" or ");
  if (schema.prefixItems) return join(["[", join(schema.prefixItems.map(typeOf), ", "), "]"], "");
  if (schema.type === "array") return join(["list of ", typeOf(schema.items)], "");
  if (schema.type === "object" && typeof schema.additionalProperties === "object") {
    return join(["map of ", typeOf(schema.additionalProperties)], "");
  }
  if (schema.contentMediaType || schema.format === "binary") return "file";
  return schema.type ?? "anything";
}

function join(parts, between) {
  const whole = element("span");
  parts.forEach((part, place) => whole.append(...(place ? [between, part] : [part])));
  return whole;
}

function limitsOf(schema) {
  const own = schema?.anyOf?.find((one) => one.type !== "null") ?? schema ?? {};
  const named = [
    ["minimum", "from"], ["maximum", "to"], ["minLength", "at least"], ["maxLength", "at most"],
  ];
  const parts = named
    .filter(([key]) => own[key] !== undefined)
    .map(([key, word]) => `${word} ${own[key]}${key.endsWith("Length") ? " characters" : ""}`);
  if (schema?.default !== undefined && schema.default !== null) {
    parts.push(`default ${JSON.stringify(schema.default)}`);
  }
  return parts.join(", ");
}

function row(name, schema, required, description) {
  const limits = limitsOf(schema);
  return element(
    "tr",
    {},
    element("td", {}, name, required ? element("span", { className: "required" }, " required") : null),
    element("td", {}, typeOf(schema)),
    element(
      "td",
      {},
      description ?? schema?.description ?? "",
      limits ? element("p", {}, limits) : null,
    ),
  );
}

function table(heads, rows) {
  return element(
    "div",
    { className: "scroll" },
    element(
      "table",
      {},
      element("thead", {}, element("tr", {}, ...heads.map((head) => element("th", {}, head)))),
      element("tbody", {}, ...rows),
    ),
  );
}

const FIELDS = ["Name", "Type", "What it is"];

function parameters(route) {
  if (!route.parameters?.length) return [];
  const rows = route.parameters.map((one) =>
    row(`${one.name} (${one.in})`, one.schema, one.required, one.description));
  return [element("h3", {}, "Parameters"), table(FIELDS, rows)];
}

function body(route, schemas) {
  const content = route.requestBody?.content;
  if (!content) return [];
  const kinds = Object.keys(content);
  const schema = resolve(content[kinds[0]].schema, schemas);
  return [element("h3", {}, `Body (${kinds.join(" or ")})`), table(FIELDS, properties(schema))];
}

const resolve = (schema, schemas) => (schema.$ref ? schemas[nameOf(schema.$ref)] : schema);

const properties = (schema) =>
  Object.entries(schema.properties ?? {}).map(([name, one]) =>
    row(name, one, schema.required?.includes(name)));

function answers(route) {
  const rows = Object.entries(route.responses).map(([status, answer]) => {
    const kinds = Object.entries(answer.content ?? {}).map(([kind, { schema }]) =>
      element("div", {}, `${kind} `, schema && Object.keys(schema).length ? typeOf(schema) : ""));
    return element(
      "tr",
      {},
      element("td", {}, status),
      element("td", {}, answer.description),
      element("td", {}, ...kinds),
    );
  });
  return [element("h3", {}, "Answers"), table(["Status", "Meaning", "Body"], rows)];
}

function routeCard(path, method, route, schemas) {
  return element(
    "section",
    { className: "route", id: `route-${route.operationId}` },
    element(
      "h2",
      {},
      element("span", { className: `method ${method}` }, method.toUpperCase()),
      element("code", {}, path),
    ),
    element("p", {}, route.description ?? route.summary),
    ...parameters(route),
    ...body(route, schemas),
    ...answers(route),
  );
}

function schemaCard(name, schema) {
  const rows = properties(schema);
  return element(
    "section",
    { className: "schema", id: `schema-${name}` },
    element("h2", {}, name),
    schema.description ? element("p", {}, schema.description.split("\n\nArgs:")[0]) : null,
    rows.length ? table(FIELDS, rows) : null,
    schema.examples
      ? element("pre", {}, JSON.stringify(schema.examples[0], null, 2))
      : null,
  );
}

function draw(description) {
  const schemas = description.components?.schemas ?? {};
  const routes = Object.entries(description.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, route]) => ({ path, method, route })));
  const named = Object.entries(schemas).filter(([name]) => !name.startsWith("Body_"));
  byId("version").textContent = `version ${description.info.version}`;
  byId("contents").replaceChildren(
    element("h2", {}, "Routes"),
    ...routes.map(({ route }) =>
      element("a", { href: `#route-${route.operationId}` }, route.summary)),
    element("h2", {}, "Schemas"),
    ...named.map(([name]) => element("a", { href: `#schema-${name}` }, name)),
  );
  byId("reference").replaceChildren(
    element(
      "div",
      { className: "intro" },
      ...description.info.description.split("\n\n").map((text) =>
        element("p", {}, text.replaceAll("`", ""))),
    ),
    ...routes.map(({ path, method, route }) => routeCard(path, method, route, schemas)),
    element("h2", { className: "part" }, "Schemas"),
    ...named.map(([name, schema]) => schemaCard(name, schema)),
  );
}

try {
  const response = await fetch("/openapi.json");
  draw(await response.json());
} catch {
  byId("reference").replaceChildren(
    element("p", { role: "alert" }, "The description cannot be read. Is the server running?"),
  );
}
