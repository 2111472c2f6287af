/** Enrolment: verify the plan, make a key, and offer it to the server. Loaded when it is needed. */
import { type Bytes, equalBytes } from "../bytes.ts";
import { require, SketchError } from "../errors.ts";
import { Plan, type VerifiedPlan } from "../plan/plan.ts";
import { computeStudyId, readPlan } from "../plan/verifying.ts";
import { type EnrolmentCode, readCode } from "../wire/code.ts";
import { makeEnrolment } from "../wire/enrolment.ts";
import { type Account, type Limits, makeEvent, requireAffordable } from "./ledger.ts";
import type { Platform } from "./platform.ts";
import { type Policy, requirePlanAllowed, requireServerAllowed } from "./policy.ts";
import type { DeviceAnswer, Server } from "./server.ts";
import { pin } from "./results.ts";
import type { SecureSum } from "./sketching.ts";
import { type DeviceState, FORMAT, LEDGER, type LedgerEntry, stateKey, type Store } from "./store.ts";
import { OLDER_THAN_THIS } from "./windows.ts";

export { createKey } from "./web_keys.ts";
export { readCode };

const NOT_KEPT =
  "storage: the browser does not promise to keep this site's data, and private browsing never does. If it deletes " +
  "them, this device is gone with its ledger: allow the site to store data for good, or install it";

/** What an enrolment works with. */
export interface EnrolSettings extends Account {
  store: Store;
  platform: Platform;
  limits: Limits;
  policy: Policy;
  secureSum: SecureSum | undefined;
  /** Milliseconds since 1970-01-01 UTC. */
  clock: () => number;
  connect(address: string, device: Uint8Array, key?: DeviceState["key"]): Server;
}

/** Verify a plan, and check that the owner's policy allows it. */
export async function verifyPlan(
  bytes: Bytes,
  { platform, policy, secureSum }: Pick<EnrolSettings, "platform" | "policy" | "secureSum">,
): Promise<VerifiedPlan> {
  const plan = await readPlan(bytes, platform.sha256);
  const isAllowed = plan.fields.release.kind !== "sum.v1" || secureSum;
  const fix = "pass useSecureSum of sfumato-device/sum if you trust two servers not to work together";
  require(!!isAllowed, "privacy", "secureSum", "is missing, and the device adds no noise in this study", fix);
  await secureSum?.requireAllowed(plan, platform.sha256);
  requirePlanAllowed(policy, plan);
  return plan;
}

/** A study as a device sees it before it takes part. */
export interface StudyInfo {
  server: string;
  name: string;
  /** Verified, and allowed by the owner's policy. */
  plan: Plan;
}

/** Fetch the study of a code and verify its plan; nothing is stored, and nobody learns who asks. */
export async function inspect(settings: EnrolSettings, code: string): Promise<StudyInfo> {
  const { server, name, verified } = await fetchStudy(settings, readCode(code));
  return { server, name, plan: await Plan.open(verified) };
}

function requireStream(name: string): void {
  // Made from text: older Hermes has no such classes, and would not even load a literal.
  const isVisible = (): boolean => new RegExp("^[^\\p{C}\\p{Z}]{1,64}$", "u").test(name) && name.normalize() === name;
  const isName = /^[!-~]{1,64}$/.test(name) || isVisible();
  require(isName, "config", "stream", "must have 1 to 64 visible characters", 'use a name such as "main"');
}

/**
 * Enrol in the study of a code.
 *
 * @param before The state of a device that has not enrolled, or not wholly.
 * @returns The server's answer, and what the owner should know.
 */
export async function enrol(
  settings: EnrolSettings,
  code: string,
  labels: { readonly [name: string]: string } | undefined,
  before: DeviceState | undefined,
): Promise<[answer: DeviceAnswer | undefined, problems: string[]]> {
  const { store, platform, policy } = settings;
  requireStream(settings.stream);
  const read = readCode(code);
  const { server: address, study, token } = read;
  requireServerAllowed(policy, address);
  if (before?.isEnrolled) {
    const fix = "pass another name for a second study, or call forget() first";
    require(equalBytes(before.study, study), "config", "code", "is of another study than this device's", fix, "other-study");
    return [undefined, []];
  }
  const { verified: plan } = await fetchStudy(settings, read);
  const kept = requireLabels(plan, labels ?? {});
  // The key of an enrolment that broke off may be known to the server already.
  const key =
    before && equalBytes(before.study, study) ? before.key : await platform.createKey(store.canHoldKeys);
  const device = await platform.sha256(key.publicKey);
  const state: DeviceState = {
    format: FORMAT,
    server: address,
    study,
    plan,
    key,
    device,
    labels: kept,
    isEnrolled: false,
    stream: settings.stream,
    ordinal: 0,
    generation: "",
    nextSequence: 0,
    firstRecord: 0,
    floor: -1,
    revision: 0,
    suspended: "",
    outbox: [],
    certain: OLDER_THAN_THIS,
  };
  await prepare(settings, state, before);
  const isKept = !store.canHoldKeys || (await keepStorage());
  const server = settings.connect(address, device, key);
  const request = await makeEnrolment(token, study, key.publicKey, kept, (data) => platform.sign(key, data));
  const own = stateKey(settings.name);
  try {
    const { device_id: stated } = server.read(await server.request(request));
    if (stated !== server.id) throw server.unanswered("it answers with another device's id");
  } catch (error) {
    // What the server certainly did not take is of no use.
    if (error instanceof SketchError && error.kind === "refused") await store.update([own], () => ({ [own]: undefined }));
    throw error;
  }
  const answer = await server.fetchDevice();
  await store.update([own], (values) => {
    const present = values[own] as DeviceState | undefined;
    // Another tab may have finished the same enrolment, and released since.
    if (!present || present.isEnrolled || !equalBytes(present.device, device)) return {};
    const { ordinal, generation, serverTime } = answer;
    // The earlier time has come, whichever clock is right.
    const certain = Math.max(OLDER_THAN_THIS, Math.floor(Math.min(serverTime, settings.clock() / 1000)));
    return { [own]: { ...present, isEnrolled: true, ordinal, generation, certain } };
  });
  // Its owner decides now to trust this server. Where it does not answer, the first pull pins its key.
  await pin(settings, server).catch(() => undefined);
  return [answer, isKept ? [] : [NOT_KEPT]];
}

/** Fetch the study that a code names, and verify that it is the one. */
async function fetchStudy(
  settings: EnrolSettings,
  { server, study }: EnrolmentCode,
): Promise<{ server: string; name: string; verified: VerifiedPlan }> {
  requireServerAllowed(settings.policy, server);
  const [bytes, name] = await fetchPlan(settings.connect(server, new Uint8Array(32)), study);
  const verified = await verifyPlan(bytes, settings);
  const isStudy = equalBytes(await computeStudyId(name, verified.digest, settings.platform.sha256), study);
  require(isStudy, "plan", "study", "is not the one that the server sent", "ask its operator; nothing was sent");
  return { server, name, verified };
}

/** Fetch a study's plan and name; neither is verified yet. */
async function fetchPlan(server: Server, study: Uint8Array): Promise<[plan: Bytes, name: string]> {
  const path = `${server.studyPath(study)}/plan`;
  const exact = await server.request({ method: "GET", path, headers: { Accept: "application/cbor" } });
  const { name } = server.read(await server.request({ method: "GET", path, headers: { Accept: "application/json" } }));
  return [exact.body, String(name)];
}

/** Store the key, and what is known of the study, before the server hears of the key. */
async function prepare(
  settings: EnrolSettings,
  state: DeviceState,
  before: DeviceState | undefined,
): Promise<void> {
  const { store, limits, name } = settings;
  const { study, plan } = state;
  const own = stateKey(name);
  await store.update([own, LEDGER], (values) => {
    const present = values[own] as DeviceState | undefined;
    const isFree = !present || (!present.isEnrolled && !!before && equalBytes(present.device, before.device));
    const fix = "close the other tab, and try again";
    require(isFree, "config", "device", "is being enrolled by another tab", fix, "enrolling-elsewhere");
    const event = makeEvent(settings, study, plan, 1);
    const ledger = (values[LEDGER] ?? []) as LedgerEntry[];
    requireAffordable(ledger, event, limits, plan.fields.most_sketches_per_device);
    return { [own]: state };
  });
}

/** Return the labels of a device, if each that the plan declares has one of its values. */
function requireLabels(
  { fields }: VerifiedPlan,
  labels: { readonly [name: string]: string },
): { [name: string]: string } {
  const declared = new Map(fields.labels.map(({ name, values }) => [name, values]));
  for (const name of Object.keys(labels)) {
    const fix = declared.size ? `use: ${[...declared.keys()].join(", ")}` : "leave labels out";
    require(declared.has(name), "config", `labels.${name}`, "must be a label that the plan declares", fix);
  }
  for (const [name, values] of declared) {
    const value = Object.hasOwn(labels, name) ? labels[name] : undefined;
    const rule = value === undefined ? "is missing" : "must be a declared value";
    require(values.includes(value!), "config", `labels.${name}`, rule, `use one of: ${values.join(", ")}`);
  }
  return { ...labels };
}

/**
 * Ask the browser to keep this site's data when space is short; return whether it does.
 *
 * Where it does not, it may delete ledger and device together; the site then has no device any more.
 */
async function keepStorage(): Promise<boolean> {
  return (await globalThis.navigator?.storage?.persist?.()) ?? false;
}
