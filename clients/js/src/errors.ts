/**
 * Kinds of refusals, named as the error classes of the reference agent are.
 *
 * `config` a setting is wrong; `record` a record cannot be taken; `plan` a plan is inconsistent or
 * not the one expected; `privacy` a promise is not possible or not allowed; `budget` a release would
 * exceed the owner's budget; `ledger` the ledger disagrees with the server; `malformed` bytes are
 * not what the protocol says; `version` a version or kind that this software does not know; `store`
 * the ledger cannot be read or written; `random` there is no sound random generator; `refused` the
 * server refused; `transport` the server did not answer.
 */
export type ErrorKind =
  | "config"
  | "record"
  | "plan"
  | "privacy"
  | "budget"
  | "ledger"
  | "malformed"
  | "version"
  | "store"
  | "random"
  | "refused"
  | "transport";

/** An input was refused, and the attempt changed nothing. No message quotes a record's value. */
export class SketchError extends Error {
  readonly kind: ErrorKind;
  /** The name of the field or option at fault. */
  readonly field: string;
  /** The rule that is broken. */
  readonly rule: string;
  /** The remedy, as an imperative. */
  readonly fix: string;
  /**
   * A stable name, by which a program words it for its own users. Of a server's refusal it is the
   * problem type, such as `study-closed`, and without an answer `no-answer`. Of the device's own it
   * is `not-enrolled`, `other-study`, `enrolling-elsewhere`, `device-gone`, `suspended`,
   * `before-study`, `windows-full`, `outbox-full`, `storage-full`, `storage-refused`,
   * `storage-closed`, `sketches-used-up`, `limit-reached`, `insecure-page` or `old-browser`; of all others the kind.
   */
  code: string;
  /** Seconds to wait after a server's refusal. */
  holdS = 0;

  constructor(kind: ErrorKind, field: string, rule: string, fix: string, code: string = kind) {
    super(`${field}: ${rule}. ${fix[0]!.toUpperCase()}${fix.slice(1)}`);
    this.name = "SketchError";
    this.kind = kind;
    this.field = field;
    this.rule = rule;
    this.fix = fix;
    this.code = code;
  }
}

/** Throw a `SketchError` unless a rule holds. */
export function require(
  holds: boolean,
  kind: ErrorKind,
  field: string,
  rule: string,
  fix: string,
  code?: string,
): asserts holds {
  if (!holds) throw new SketchError(kind, field, rule, fix, code);
}
