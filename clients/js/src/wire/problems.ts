/** What a device does about a refusal, by the slug of its problem type (RFC 9457). */

/**
 * `retry`: send the same bytes again later; `hold`: the same, and others in the meantime; `shelve`:
 * set aside, visibly, counted as spent; `suspend`: shelve, and release nothing more.
 */
export type Action = "retry" | "hold" | "shelve" | "suspend";

const SHELVED =
  "malformed-message unsupported-version signature-invalid request-signature-invalid seal-invalid " +
  "batch-differs batch-committed batch-too-small plan-not-accepted helper-restored implausible-sketch " +
  "window-expired plan-mismatch wrong-statistic plan-invalid privacy-invalid not-found study-closed study-withdrawn access-denied " +
  "forbidden no-group decoding-invalid store-conflict request-invalid method-not-allowed precondition-failed " +
  "precondition-required too-large media-type-unsupported";

const ACTIONS: ReadonlyMap<string, Action> = new Map<string, Action>([
  ...SHELVED.split(" ").map((slug) => [slug, "shelve"] as const),
  ["too-early", "hold"],
  ["duplicate-upload", "suspend"],
]);

/** Return the action of a slug; what no aggregator says is tried again. */
export function findAction(slug: string): Action {
  return ACTIONS.get(slug) ?? "retry";
}
