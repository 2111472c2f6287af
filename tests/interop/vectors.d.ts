/** All vectors by family, which the bundler of the program for Hermes puts in. */
declare module "vectors.json" {
  const vectors: { [family: string]: unknown };
  export default vectors;
}
