import assert from "node:assert/strict";
import { test } from "node:test";

import { toHex } from "../../../../clients/js/src/bytes.ts";
import { encode, Tagged, type Value } from "../../../../clients/js/src/wire/cbor.ts";
import { decode } from "../../../../clients/js/src/wire/decoding.ts";
import { hex } from "../vectors.ts";

/** Examples of RFC 8949, appendix A, that this protocol can meet. */
const EXAMPLES: [string, Value][] = [
  ["00", 0],
  ["17", 23],
  ["1818", 24],
  ["1903e8", 1000],
  ["1a000f4240", 1000000],
  ["1b000000e8d4a51000", 1000000000000],
  ["1bffffffffffffffff", 18446744073709551615n],
  ["3bffffffffffffffff", -18446744073709551616n],
  ["20", -1],
  ["3903e7", -1000],
  ["f4", false],
  ["f5", true],
  ["f6", null],
  ["4401020304", Uint8Array.of(1, 2, 3, 4)],
  ["60", ""],
  ["62c3bc", "ü"],
  ["64f0908591", "𐅑"],
  ["83010203", [1, 2, 3]],
  ["a26161016162820203", { a: 1, b: [2, 3] }],
  ["d81e820103", new Tagged(30, [1, 3])],
];

test("values have the one encoding of the RFC, and come back from it", () => {
  for (const [text, value] of EXAMPLES) {
    assert.equal(toHex(encode(value)), text);
    const decoded = decode(hex(text), "example");
    assert.equal(toHex(encode(decoded)), text);
    if (typeof value !== "object") assert.equal(decoded, value);
  }
});

test("lengths and integers around every boundary come back", () => {
  for (const size of [0, 1, 23, 24, 255, 256, 65535, 65536]) {
    assert.equal((decode(encode("x".repeat(size)), "text") as string).length, size);
    assert.equal((decode(encode(new Uint8Array(size)), "bytes") as Uint8Array).length, size);
    for (const value of [size, -size - 1]) assert.equal(decode(encode(value), "integer"), value);
  }
  for (const value of [2 ** 32, 2 ** 32 - 1, Number.MAX_SAFE_INTEGER, -(2 ** 53) + 1]) {
    assert.equal(decode(encode(value), "integer"), value);
  }
  assert.equal(decode(encode(2n ** 53n), "integer"), 2n ** 53n);
});

test("keys are sorted by their encodings, whatever their order was", () => {
  assert.equal(toHex(encode({ bb: 1, a: 2, c: 3 })), "a361610261630362626201");
  assert.equal(toHex(encode(new Map([[10, 1], [-1, 2], [1, 3]]))), "a301030a012002");
});

test("floats of all widths are read", () => {
  const floats: [string, number][] = [
    ["f90000", 0],
    ["f98000", -0],
    ["f93c00", 1],
    ["f90001", 5.960464477539063e-8],
    ["f90400", 0.00006103515625],
    ["f97bff", 65504],
    ["f97c00", Infinity],
    ["fa47c35000", 100000],
    ["fb3ff199999999999a", 1.1],
    ["f97e00", NaN],
  ];
  for (const [text, value] of floats) assert.ok(Object.is(decode(hex(text), "float"), value), text);
});

test("what is not deterministic, or of another protocol, is refused and named", () => {
  const refused: { [why: string]: string[] } = {
    "longer than they need be": ["1817", "190017", "1a0000ffff", "1b00000000ffffffff", "5801ff"],
    "of no definite length": ["9f01ff", "5f4101ff"],
    "keys that are not sorted, come twice, or are neither text nor whole numbers": ["a2616201616102", "a2616101616102", "a1410102"],
    "a number and its digits": ["a20101613102"],
    "tags and values of others": ["c001", "c24101", "d9d9f701", "f7", "f0", "f800"],
    "not UTF-8": ["61ff", "62c328", "63eda080"],
    "followed by other bytes": ["0001"],
    "too short": ["", "62c3", "1903", "9b7fffffffffffffff", "bbffffffffffffffff", "fb3ff1"],
    "too deep": ["81".repeat(17) + "00"],
  };
  for (const [why, all] of Object.entries(refused)) {
    for (const text of all) {
      assert.throws(() => decode(hex(text), "thing"), /^SketchError: thing: is not deterministic CBOR/, `${why}: ${text}`);
    }
  }
  decode(hex("81".repeat(16) + "00"), "thing");
  assert.throws(() => encode(0.5));
  assert.throws(() => encode(2n ** 64n), /64 bits/);
});

test("no bytes but their own encoding decode to a value: one changed bit is refused or another value", () => {
  const bytes = encode({ a: [1, -300, "é", true, null], b: Uint8Array.of(1, 2), c: new Tagged(30, [1, 2n ** 63n]) });
  for (let bit = 0; bit < 8 * bytes.length; bit++) {
    const changed = bytes.slice();
    changed[bit >> 3]! ^= 1 << (bit & 7);
    let value: Value;
    try {
      value = decode(changed, "thing");
    } catch {
      continue;
    }
    assert.notEqual(toHex(encode(value)), toHex(bytes));
  }
});
