import assert from "node:assert/strict";
import { test } from "node:test";

import { requireAffordable } from "../../../../clients/js/src/device/ledger.ts";
import type { LedgerEntry } from "../../../../clients/js/src/device/store.ts";

const entry = (study: string, neighbouring: LedgerEntry["neighbouring"], epsilon = "1"): LedgerEntry => ({
  ...{ study, stream: "device/main", source: "default", plan: study, epsilon, neighbouring, count: 1, copy: 0 },
});
const presence = entry("a", "add-remove-one");
const values = entry("b", "replace-one");

const check = (ledger: LedgerEntry[], event: LedgerEntry, perRecord: string): void =>
  requireAffordable(ledger, event, { perRecord }, 10);

test("under one relation epsilons add up", () => {
  check([presence], entry("b", "add-remove-one"), "2");
  check([entry("a", "replace-one")], values, "2");
  assert.throws(() => check([presence], entry("b", "add-remove-one"), "19/10"), /epsilon 2 under add-remove-one/);
});

test("under both, what hides presence counts twice, in either order", () => {
  check([presence], values, "3");
  check([values], presence, "3");
  for (const [before, event] of [[presence, values], [values, presence]] as const)
    assert.throws(() => check([before], event, "29/10"), /is 29\/10, and one more release .* epsilon 3 under replace-one/);
});

test("other records have an account of their own", () => {
  check([{ ...presence, source: "other" }], values, "1");
});
