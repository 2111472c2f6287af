/** All vectors by family, which the bundler of the program for Hermes puts in. */
declare module "vectors.json" {
  const vectors: { [family: string]: unknown };
  export default vectors;
}

/** A plan as it is published, in hexadecimal; likewise. */
declare module "plan.json" {
  const plan: string;
  export default plan;
}
