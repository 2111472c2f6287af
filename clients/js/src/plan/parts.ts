/** What only some plans compute with: masks, blocks, histograms, phase reports. Loaded where a plan needs it. */
export { Blocks } from "../core/blocks.ts";
export { MaskSchedule } from "../core/masks.ts";
export { countBins, HistogramStatistic } from "../core/statistics/histogram.ts";
export { CircularLaw } from "../privacy/circle.ts";
