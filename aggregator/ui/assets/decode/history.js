// The decodes of a study, newest first.

import { attempt } from "../base/attempt.js";
import { h, table } from "../base/dom.js";
import { listing } from "../base/listing.js";
import { utc, whole } from "../base/words.js";
import { pill, when } from "../studies/list.js";

function describe({ verdict, problem, state }) {
  if (problem) return problem.title;
  return verdict?.word ?? (state === "succeeded" ? "no verdict" : "–");
}

function render(study) {
  return (decodes) => {
    if (!decodes.length) return h("p", { class: "empty" }, "Nothing was decoded yet. Choose k and press “Decode”.");
    const rows = decodes.map((decode) => [
      h("a", { href: `#studies/${study.study_id}/decodes/${decode.decode_id}` }, utc(new Date(decode.created))),
      when(decode.created),
      pill(decode.state),
      whole(decode.n_clusters),
      decode.decoder,
      describe({ ...decode, verdict: decode.result?.verdict }),
    ]);
    return table("Decodes", ["Requested", "Age", "State", "Clusters", "Decoder", "Verdict"], rows, { numeric: [3], stacks: true });
  };
}

/** The card of the history, and a function that reads it again. */
export function historyPanel(study, signal) {
  const place = h("div", {}, h("p", { class: "empty" }, "…"));
  async function reload() {
    await attempt(place, signal, async () => {
      place.replaceChildren(await listing(`/v1/studies/${study.study_id}/decodes`, { render: render(study), noun: "decode", signal }));
    });
  }
  reload();
  return { node: h("section", { class: "card" }, h("h2", {}, "History of decodes"), place), reload };
}
