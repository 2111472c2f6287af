// Sign-in by OpenID Connect: the authorization code flow with PKCE. Its secrets are in this tab alone, until it comes back.

import { Problem, request } from "./api.js";

const PENDING = "sfumato.sign-in";

const encode = (bytes) => btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const draw = () => encode(crypto.getRandomValues(new Uint8Array(32)));

/** The address at the provider; null where people paste a key. */
export async function findProvider(signal) {
  const { address } = await request("/v1/sign-in", { secret: null, signal });
  return address && new URL(address);
}

/** Leave for the provider, or for the address of this page that it leads back to: what a tab keeps is of one address. */
export async function leaveFor(provider) {
  const page = new URL(provider.searchParams.get("redirect_uri"));
  if (page.origin !== location.origin) {
    location.assign(page + location.hash);
    return;
  }
  const pending = { state: draw(), nonce: draw(), verifier: draw(), hash: location.hash };
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(pending.verifier));
  provider.searchParams.set("state", pending.state);
  provider.searchParams.set("nonce", pending.nonce);
  provider.searchParams.set("code_challenge", encode(new Uint8Array(digest)));
  sessionStorage.setItem(PENDING, JSON.stringify(pending));
  location.assign(provider);
}

/** Exchange what the provider sent back with this tab for a key; null if nothing came. */
export async function finishSignIn(signal) {
  const answer = new URLSearchParams(location.search);
  if (!answer.has("state") && !answer.has("error")) return null;
  const pending = JSON.parse(sessionStorage.getItem(PENDING));
  sessionStorage.removeItem(PENDING);
  // Neither history nor a copied address holds the code.
  history.replaceState(null, "", `/${pending?.hash ?? ""}`);
  const title = "You are not signed in";
  if (pending?.state !== answer.get("state")) {
    throw new Problem({ title, field: "state", rule: "must be of a sign-in that began in this tab, and counts once", fix: "sign in again, in this tab" });
  }
  if (answer.has("error")) {
    const rule = [answer.get("error"), answer.get("error_description")].filter(Boolean).join(": ");
    throw new Problem({ title, field: "the provider's answer", rule, fix: "sign in again, or ask the operator of this server" });
  }
  const { nonce, verifier } = pending;
  const { key } = await request("/v1/sign-in", { method: "POST", body: { code: answer.get("code"), nonce, verifier }, secret: null, signal });
  return key;
}
