/** What TypeScript knows of a study's plan: types of records and labels, none of which is there at run time. */
import type { Record } from "./plan.ts";

/**
 * The part of a plan that types follow from. A plan as a `const` object has this shape, or as much of it:
 *
 *     const plan = {
 *       dimensions: [{ name: "temperature" }, { name: "mode", levels: ["eco", "heat"] }],
 *       labels: [{ name: "region", values: ["north", "south"] }],
 *     } as const;
 *     const device = new Device<typeof plan>();
 */
export interface PlanShape {
  readonly dimensions: readonly DimensionShape[];
  readonly labels?: readonly LabelShape[];
}

interface DimensionShape {
  readonly name: string;
  readonly levels?: readonly string[];
}

interface LabelShape {
  readonly name: string;
  readonly values: readonly string[];
}

/** A level as its text, or as the truth value or number that it is the text of. */
type Level<L extends string> =
  | L
  | (L extends `${infer T extends boolean | number}` ? T : never)
  | null
  | undefined;

type ValueOf<D> = D extends { readonly levels: readonly (infer L extends string)[] } ? Level<L> : number | null | undefined;

/** Of a tuple, a tuple: that needs a parameter of its own. */
type ListOf<D extends readonly DimensionShape[]> = { readonly [I in keyof D]: ValueOf<D[I]> };

/** A record of a plan: a value for each dimension, `null` where it is missing, or a list in their order. */
export type RecordOf<P extends PlanShape> = string extends P["dimensions"][number]["name"]
  ? Record
  :
      | { readonly [D in P["dimensions"][number] as D["name"]]: ValueOf<D> }
      | ListOf<P["dimensions"]>
      | Float64Array
      | Float32Array;

/** The labels of a device: for each label of the plan, one of its values. */
export type LabelsOf<P extends PlanShape> = PlanShape extends P
  ? { readonly [label: string]: string }
  : P extends { readonly labels: readonly (infer L extends LabelShape)[] }
    ? { readonly [Label in L as Label["name"]]: Label["values"][number] }
    : { readonly [label: string]: never };
