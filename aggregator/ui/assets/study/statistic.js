// The statistic of a plan in words: what devices sum, what a sketch carries, how large its noise is.

import { count, rounded, share, whole } from "../base/words.js";

export const STATISTICS = {
  fourier: { name: "Fourier features", sentence: "Fourier features: averages of waves over the records, from which clusters are decoded" },
  histogram: { name: "Histogram", sentence: "histogram: counts of the records in the bins of each dimension by itself" },
  grid: { name: "Grid", sentence: "grid: counts of the records in the cells of all dimensions together, from which clusters are decoded" },
  clusters: { name: "Second look", sentence: "second look: numbers, spreads and means of the records around published centres" },
  moments: { name: "Moments", sentence: "moments: means and products of the dimensions, from which correlations and principal directions follow" },
};

function describeParts(each, most, one, many, sketches) {
  if (each === most) return count(most, one, many);
  return `${whole(each)} of ${whole(most)} ${many}: fewer than ${whole(sketches)} carry not all`;
}

/** What one sketch carries. */
export function describeCarried({ statistic, dimensions }) {
  if (statistic.kind === "fourier") {
    const { n_frequencies: most, frequencies_per_sketch: each } = statistic;
    return describeParts(each, most, "frequency", "frequencies", most / each);
  }
  if (statistic.kind === "histogram") {
    const { dimensions_per_sketch: each } = statistic;
    const bins = dimensions.map(({ name, levels }, i) => (levels?.length ? `${name} ${count(levels.length, "level")}` : `${name} ${count(2 ** statistic.bins_log2[i], "bin")}`));
    return `${describeParts(each, dimensions.length, "histogram", "histograms", dimensions.length / each)} (${bins.join(", ")})`;
  }
  if (statistic.kind === "grid") return `${whole(statistic.cells.reduce((a, b) => a * b, 1))} cells (${statistic.cells.map(whole).join(" × ")})`;
  if (statistic.kind === "clusters") return describeParts(statistic.clusters_per_sketch, statistic.centres.length, "cluster", "clusters", statistic.centres.length / statistic.clusters_per_sketch);
  return "the means and second moments of all axes";
}

const COUNTED = { histogram: "a bin", grid: "a cell", moments: "a sum", clusters: "a sum" };

/** The utility of all stored sketches, in words. */
export function describeUtility(utility, plan) {
  const { kind, n_frequencies: most, frequencies_per_sketch: each } = plan.statistic;
  if (!utility.n_sketches) return "There is no sketch yet.";
  if (utility.noise_energy === null) return "The records cannot be told from the noise yet.";
  if (kind !== "fourier") {
    const of = kind === "moments" || kind === "clusters" ? "the largest sum that the records could have" : "the records";
    const deviation = Math.sqrt(utility.noise_energy);
    return `Noise of ${COUNTED[kind]}, all stored sketches together: ${share(deviation, deviation < 0.001 ? 4 : 2)} of ${of} (one standard deviation).`;
  }
  const carried = each < most ? `The sketches carry ${whole(utility.n_covered)} of ${whole(most)} frequencies. ` : "";
  const snr = `Signal to noise of all stored sketches: ${rounded(utility.snr)}.`;
  const band = utility.band ? ` For this k, ${utility.band.statement}; 1 is k-means on the raw records.` : "";
  return carried + snr + band;
}
