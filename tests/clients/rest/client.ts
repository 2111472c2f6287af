/** Use the interface by types that were generated from its description. */
import { readFileSync } from "node:fs";

import createClient from "openapi-fetch";

import type { paths } from "./schema.ts";

const [baseUrl, secret, study, sketch, file, key] = process.argv.slice(2) as [
  string, string, string, string, string, string,
];
const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${secret}` } });

function require<T>({ data, error }: { data?: T; error?: { detail: string } }): T {
  if (data === undefined) throw new Error(error?.detail ?? "no answer");
  return data;
}

require(await client.PUT("/v1/studies/{study}/sketches/{sketch}", {
  params: { path: { study, sketch } },
  headers: { "Content-Type": "application/vnd.sfumato.sketch+cbor" },
  // Binary bodies are typed as text.
  body: "",
  bodySerializer: () => readFileSync(file),
}));

type Page<T> = { items: T[]; next_page?: string | null };

async function listAll<T>(list: (page?: string | null) => Promise<Page<T>>): Promise<T[]> {
  const items: T[] = [];
  let found = await list();
  while (items.push(...found.items), found.next_page) found = await list(found.next_page);
  return items;
}

const sketches = await listAll(async (page) => {
  const query = { limit: 1, page };
  const params = { path: { study }, query };
  return require(await client.GET("/v1/studies/{study}/sketches", { params }));
});
const studies = await listAll(async (page) =>
  require(await client.GET("/v1/studies", { params: { query: { limit: 1, page } } })),
);

const asked = {
  params: { path: { study }, header: { "Idempotency-Key": key } },
  body: { n_clusters: 2 },
};
const made = require(await client.POST("/v1/studies/{study}/decodes", asked));
const again = require(await client.POST("/v1/studies/{study}/decodes", asked));

const path = { decode: made.decode_id };
let decode = made;
while (decode.state === "queued" || decode.state === "running") {
  await new Promise((resolve) => setTimeout(resolve, 100));
  decode = require(await client.GET("/v1/decodes/{decode}", { params: { path } }));
}
const refused = await client.POST("/v1/studies/{study}/decodes", {
  ...asked, body: { n_clusters: 3 },
});
const centroids: number[][] | undefined = decode.result?.centroids;
console.log(JSON.stringify({
  sketches: sketches.map((each) => each.sketch_id),
  has_study: studies.some((each) => each.study_id === study),
  ids: [made.decode_id, again.decode_id],
  centroids,
  refused: refused.error?.field,
}));
