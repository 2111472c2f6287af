// Histograms, moments and measured clusters as rows of CSV, a figure each; an empty cell does not apply.

import { axesOf, fromScale } from "../base/axes.js";

/** Bars, levels, quantiles and shares without a bar; `error` is one standard deviation of the noise. */
export function listHistogram({ marginals }) {
  const heads = ["dimension", "unit", "figure", "level", "lower", "upper", "value", "share", "error"];
  const rows = marginals.flatMap((marginal) => {
    const row = (figure, cells) => {
      const known = { dimension: marginal.name, unit: marginal.unit, figure, ...cells };
      return heads.map((head) => known[head] ?? null);
    };
    return [
      ...marginal.bars.map(({ lower, upper, share, error }) => row("bar", { lower, upper, share, error })),
      ...marginal.levels.map(({ level, share, error }) => row("level", { level, share, error })),
      ...marginal.quantiles.map(({ share, value, low, high }) => row("quantile", { lower: low, upper: high, value, share })),
      ...["below", "above", "missing"].map((figure) => row(figure, { share: marginal[figure], error: marginal.error })),
    ];
  });
  return [heads, ...rows];
}

/** Means, correlations, shares of the variance and loadings, each with its 95 % band; no loadings of arbitrary directions. */
export function listMoments(answer, plan) {
  const heads = ["figure", "direction", "axis", "with", "unit", "value", "low", "high"];
  const axes = axesOf(plan.dimensions);
  const row = (cells) => heads.map((head) => cells[head] ?? null);
  const around = (value, error) => ({ value, low: value - 2 * error, high: value + 2 * error });
  const means = axes.map(({ name, unit, resolution }, i) => {
    const band = Object.entries(around(answer.mean[i], answer.mean_error[i]));
    return row({ figure: "mean", axis: name, unit, ...Object.fromEntries(band.map(([end, place]) => [end, fromScale(place, resolution)])) });
  });
  const correlations = axes.flatMap(({ name }, i) =>
    axes.slice(0, i).map((other, j) =>
      row({ figure: "correlation", axis: name, with: other.name, value: answer.correlation[i][j], low: answer.correlation_low[i][j], high: answer.correlation_high[i][j] }),
    ),
  );
  const directions = answer.components.flatMap((each, i) => [
    row({ figure: "share of the variance", direction: i + 1, value: each.share, low: each.share_low, high: each.share_high }),
    ...(each.is_told_apart
      ? axes.map(({ name, unit, resolution }, j) =>
          row({ figure: "loading", direction: i + 1, axis: name, unit: resolution ? "doublings" : unit, ...around(each.loadings[j], each.loadings_error[j]) }),
        )
      : []),
  ]);
  return [heads, ...means, ...correlations, ...directions];
}

/** Numbers of records, shares, spreads, means and refined centres of each cluster; `error` is one standard deviation of the noise. */
export function listClusters({ clusters, assigned, summed, gain, beyond }) {
  const heads = ["cluster", "figure", "column", "unit", "value", "error"];
  const row = (cells) => heads.map((head) => cells[head] ?? null);
  const ofAll = Object.entries({ gain, beyond }).flatMap(([figure, each]) => (each ? [row({ figure, ...each })] : []));
  const rows = clusters.flatMap((each, i) => {
    const known = { cluster: i + 1 };
    const figures = { records: each.n_records, share: each.share, spread: each.spread };
    return [
      ...Object.entries(figures).flatMap(([figure, number]) => (number ? [row({ ...known, figure, ...number })] : [])),
      ...(each.mean ?? []).map((value, j) => row({ ...known, figure: "mean", column: summed[j].name, unit: summed[j].unit, value, error: each.mean_error[j] })),
      ...each.refined.map((value, j) => row({ ...known, figure: "refined", column: assigned[j].name, unit: assigned[j].unit, value })),
    ];
  });
  return [heads, ...ofAll, ...rows];
}
