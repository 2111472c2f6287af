/** Masks, blocks, histograms, clusters, phase reports: loaded where a plan needs one of them. */
export { Blocks } from "../core/blocks.ts";
export { MaskSchedule } from "../core/masks.ts";
export { ClustersStatistic } from "../core/statistics/clusters.ts";
export { countBins, HistogramStatistic } from "../core/statistics/histogram.ts";
export { CircularLaw } from "../privacy/circle.ts";
