// Client of the REST interface. The key is only in sessionStorage: it disappears with the tab, and is
// sent only in the Authorization header of requests to this server.

const KEY = "sfumato.key";
const PATIENCE = 5;

export const key = {
  read: () => sessionStorage.getItem(KEY),
  keep: (text) => sessionStorage.setItem(KEY, text),
  forget: () => sessionStorage.removeItem(KEY),
};

/** An RFC 9457 problem, or a problem that this page reports itself. */
export class Problem extends Error {
  constructor({ title, field, rule, fix, detail, type }, status = 0, retryAfter = 0) {
    super(title);
    this.title = title;
    this.field = field;
    this.rule = rule ?? detail;
    this.fix = fix;
    this.page = /^\/problems\/[a-z0-9-]+$/.test(type ?? "") ? type : null;
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

const UNREACHABLE = {
  title: "The server does not answer",
  rule: "this browser received no answer",
  fix: "check that the server is running and the network is up, then try again",
};

async function toProblem(answer) {
  const retryAfter = Number(answer.headers.get("Retry-After") ?? 0);
  let document = {};
  if (answer.headers.get("Content-Type")?.includes("json")) {
    document = await answer.json().catch(() => ({}));
  }
  const title = document.title ?? "The answer does not come from this service";
  const rule = document.rule ?? document.detail ?? `the answer has status ${answer.status}`;
  return new Problem({ ...document, title, rule }, answer.status, retryAfter);
}

async function send(path, { method = "GET", body, signal, accept, headers: more = {}, secret = key.read() } = {}) {
  const headers = { ...more, Accept: accept ?? "application/json" };
  if (secret) headers.Authorization = `Bearer ${secret}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
      // No answer to a request with a key is cached on this machine.
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(UNREACHABLE);
  }
  if (!answer.ok) throw await toProblem(answer);
  return answer;
}

/** Send a request and return the JSON of its answer. */
export async function request(path, options) {
  return (await send(path, options)).json();
}

/** Check a key with a request that every reader may make; throws the problem if it is refused. */
export async function tryKey(secret, signal) {
  if (!/^sfk_[\x21-\x7e]+$/.test(secret)) {
    throw new Problem({
      title: "This is not an API key",
      field: "API key",
      rule: "must begin with sfk_ and contain no blanks",
      fix: "paste the whole line that `sfumato key create` printed",
    });
  }
  await request("/v1/studies?limit=1", { secret, signal });
}

/** Parse server-sent events out of a stream of bytes. */
export async function* readEvents(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (waiting + value).split(/\r?\n\r?\n/);
    waiting = blocks.pop();
    for (const block of blocks) {
      const fields = { event: "message", data: [] };
      for (const line of block.split(/\r?\n/)) {
        const [, name, text] = /^(\w+): ?(.*)$/.exec(line) ?? [];
        if (name === "data") fields.data.push(text);
        else if (name) fields[name] = text;
      }
      if (fields.data.length) yield { name: fields.event, data: JSON.parse(fields.data.join("\n")) };
    }
  }
}

function pause(seconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, 1000 * seconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}

/** Follow one stream; return the finished job, or null if the stream ended before. */
async function followOnce(path, report, signal) {
  const answer = await send(`${path}/events`, { signal, accept: "text/event-stream" });
  try {
    for await (const { name, data } of readEvents(answer.body)) {
      if (name === "result") return data;
      if (name === "problem") throw new Problem(data, data.status);
      report(data);
    }
  } catch (error) {
    if (error instanceof Problem || signal.aborted) throw error;
  }
  return null;
}

/** Follow the job at a path until it ends, through lost connections and busy servers. */
export async function follow(path, report, signal) {
  for (let failures = 0; ; ) {
    try {
      const ended = await followOnce(path, report, signal);
      if (ended) return ended;
      failures = 0;
      await pause(0.5, signal);
    } catch (error) {
      const passes = error instanceof Problem && [0, 429, 503].includes(error.status);
      if (!passes || failures === PATIENCE) throw error;
      failures += 1;
      await pause(error.retryAfter || 2 ** failures / 2, signal);
      // Poll instead if the server has no free stream.
      const now = await request(path, { signal }).catch(() => null);
      if (now?.finished) return now;
      if (now) {
        report(now);
        failures = 0;
      }
    }
  }
}
