"""Verdict and band from evidence, calibrated on the quality of answers with similar evidence.

The ends of the band are

    1 + exp(c_0 + sum_i c_i f_i) - 0.003

with features f of the evidence; a larger feature means a possibly worse answer. The coefficients
are quantile regressions (5 % and 95 %) on decodes of shapes that judge nothing:
``python -m benchmarks.honesty --fit`` computes them, and ``python -m benchmarks.honesty`` reports
on other shapes how often they hold.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.decoding.problem import DecodingProblem, Vector
from sfumato.learning.decoding.verdict import (
    DOUBTFUL,
    FARTHEST,
    OFFSET,
    ROUGH,
    SOUND,
    TRUSTED,
    Influence,
    Verdict,
    choose_word,
    predict_end,
)

__all__ = [
    "FEATURES",
    "LEAST_SNR_PER_PARAMETER",
    "Evidence",
    "compute_features",
    "judge",
    "judge_influence",
    "judge_without_evidence",
]


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """Evidence for the verdict on an answer.

    Parameters
    ----------
    residual_deviations : float
        Distance of the chosen model's residual above the noise floor, in standard deviations of
        that floor; negative below it.
    held_out : float
        Misfit on equations held out of the fit, over its expectation from noise: about 1 where the
        model is true.
    disagreement, worst_disagreement : float
        Mean and largest excess of the answer's SSE over the best, taking single members of the pool
        for the truth.
    agreement : float
        Share of the independent starts that reached the lowest residual.
    snr_per_parameter, features_per_parameter : float
        SNR m / (k d), and m / (k d). Where features differ in noise, the SNR is by precision, and
        the second m counts features of much noise as less than one.
    spread_over_scale : float
        Median standard deviation inside a cluster over the plan's scale.
    far_share : float
        Smallest share of a cluster like those found, or of records that a failed sensor moves, that
        would have been seen far from all others in one column, or at a corner of the plan's box.
    hidden_share : float
        Largest share of such a cluster, wherever it is, that the misfit leaves room for.
    slow_deviations : float
        Distance of the misfit of the slow frequencies above what noise leaves, in standard
        deviations: far clusters cause it, and the shape of near ones does not.
    reach : float
        Squared distance from the nearest centroid to the farthest bound of a column, over the SSE
        of one record: a missed share s adds up to s times this to the relative SSE.
    edge_share : float
        Share of the fitted density that lies beyond the box.
    kurtosis : float
        Fourth moment of the fitted density over its squared variance, along the axis where it is
        largest; 3 for one normal. 0 where isolated clusters alone cause it, or there is no number.
    tail_axis : int
        That axis, from 0 on.
    model : str
        The chosen model, in words.
    stabilities : float64 (k,)
        Share of the members with a centroid at the same place, for each cluster.
    resolutions : float64 (k,)
        Smallest share at which a cluster at that place is distinct from noise and misfit.
    resolved : bool (k,)
        Whether a cluster reaches its resolution, and most members have it.
    """

    residual_deviations: float
    held_out: float
    disagreement: float
    worst_disagreement: float
    agreement: float
    snr_per_parameter: float
    features_per_parameter: float
    spread_over_scale: float
    far_share: float
    hidden_share: float
    slow_deviations: float
    reach: float
    edge_share: float
    kurtosis: float
    tail_axis: int
    model: str
    stabilities: Vector
    resolutions: Vector
    resolved: NDArray[np.bool_]

    @property
    def least_visible_share(self) -> float:
        """The median resolution: a cluster like those found, with fewer records, is invisible."""
        return float(np.median(self.resolutions))


FEATURES: Final = (
    "constant",
    "disagreement",
    "misfit",
    "noise",
    "wide scale",
    "narrow scale",
    "instability",
    "starts",
)
# In the order of FEATURES.
_LOW: Final = (-3.419, 0.488, 0.0, 0.06, 1.217, 0.125, 0.0, 0.219)
_HIGH: Final = (-0.016, 0.773, 0.158, 0.086, 2.428, 0.066, 0.0, 0.358)
LEAST_SNR_PER_PARAMETER: Final = 8.0
"""SNR m / (k d) below which every verdict is "do not use": noise decides where a centroid is."""
# Where clusters are this many times as wide as the plan's scale, members agree on the little that
# the frequencies resolve: of 48 such answers a fifth was good, whatever the other evidence.
_FARTHEST_SCALE: Final = 8.0
# ... and where no second search of ten ended in the same place, none of 13 was good.
_LEAST_AGREEMENT: Final = 0.1
# Where the misfit is this many times its expectation from noise, the model explains nothing: of 38
# such answers none was good, however well members agreed.
_LARGEST_MISFIT: Final = 300.0
# From this kurtosis on few far records make much of the SSE, and no evidence tells how much of it
# the answer misses: Pareto columns on linear scales had 49 to 69, and 2.5 to 2.9 times the SSE of
# k-means. A bounded column with a heavy end, visibility, had 8 to 14 in answers below 1.1. Between
# them lie tails that this cannot tell from it: functions of source code, 10 to 20, up to 1.54.
_LARGEST_KURTOSIS: Final = 25.0
# Records of which more than this share may be in one far cluster, if slow frequencies show that
# something is missed. ``python -m benchmarks.honesty --far`` reports how often these limits hold.
_MOST_HIDDEN: Final = 0.01
_SURE_DEVIATIONS: Final = 2.0
# ... and where nothing shows: a far cluster of this share would have been seen in most cases.
_MOST_UNSEEN: Final = 0.015
# Where more than this share would go unseen at the farthest bound, and would add this many times
# the SSE there, and an end is heavier than a normal one (3, and what noise adds to it), k-means
# spends clusters on a tail that the sketch does not see: incomes and blood values within bounds a
# hundred scales wide had up to 2.1 times its SSE. Of 88 answers on 22 real tables the rule doubts
# 13: 9 are above 1.2, and 12 above 1.15.
_LEAST_BURIED: Final = 0.01
_MOST_BURIED: Final = 8.0
_NORMAL_KURTOSIS: Final = 3.2
# ... and where the fitted density has a heavy end, no answer is called sound from half of that on,
# whatever the share: visits to a doctor had kurtosis 9 to 22, and up to 1.24 times the SSE.
_HEAVY_KURTOSIS: Final = 8.0
# Below this m / (k d) no answer was compared.
_LEAST_FEATURES: Final = 1.9


def compute_features(evidence: Evidence) -> tuple[float, ...]:
    """Compute the features f in the order of ``FEATURES``; from the third on not below 0."""
    inside = max(evidence.spread_over_scale, 1e-3)
    return (
        1.0,
        math.log(0.5 * (evidence.disagreement + evidence.worst_disagreement) + OFFSET),
        math.log(max(1.0, evidence.held_out)),
        max(0.0, math.log(1000.0 / max(evidence.snr_per_parameter, 1e-2))),
        max(0.0, math.log(0.5 / inside)),
        max(0.0, math.log(inside / 2.0)),
        1.0 - float(evidence.stabilities.mean()),
        -math.log(max(evidence.agreement, 0.05)),
    )


def judge(problem: DecodingProblem, evidence: Evidence) -> Verdict:
    """Judge an answer by its evidence."""
    features = compute_features(evidence)
    low = predict_end(_LOW, features)
    high = max(predict_end(_HIGH, features), low)
    is_judged = evidence.features_per_parameter >= _LEAST_FEATURES
    is_explained = evidence.held_out <= _LARGEST_MISFIT
    if evidence.snr_per_parameter < LEAST_SNR_PER_PARAMETER or not is_judged or not is_explained:
        high = math.inf
    if evidence.spread_over_scale > _FARTHEST_SCALE:
        is_lone = evidence.agreement < _LEAST_AGREEMENT
        high = max(high, math.nextafter(DOUBTFUL if is_lone else ROUGH, math.inf))
    has_tail = evidence.kurtosis > _LARGEST_KURTOSIS
    if has_tail:
        high = max(high, math.nextafter(ROUGH, math.inf))
    buries = _may_bury(evidence)
    if _hides_records(evidence) or buries:
        high = max(high, math.nextafter(ROUGH, math.inf))
    elif _may_grow(evidence) or (
        evidence.far_share > _MOST_UNSEEN and _may_add(evidence.far_share, evidence)
    ):
        high = max(high, math.nextafter(SOUND, math.inf))
    word = choose_word(high)
    sentence = _describe(word, problem, evidence, features)
    if word in ("sound", "rough"):
        # No band covers records too few to be detected.
        near = 100.0 * evidence.least_visible_share
        sentence += f"; clusters below {near:.2g}% of the records go unseen"
        if word == "sound":
            far = 100.0 * max(evidence.far_share, evidence.hidden_share)
            sentence += f", and below {far:.2g}% where they are far from all others"
    return Verdict(
        word=word,
        sentence=sentence,
        low=low,
        high=high if high <= FARTHEST and not (has_tail or buries) else math.inf,
    )


def judge_influence(verdict: Verdict, influence: Influence) -> Verdict:
    """Return the verdict, doubtful at best where one device decides a cluster or the answer."""
    if not influence.matters:
        return verdict
    words = f"{influence.describe()}; look at it before you trust the answer"
    if verdict.word not in ("sound", "rough"):
        return replace(verdict, sentence=f"{verdict.sentence}; and {words}")
    high = max(verdict.high, influence.ratio, math.nextafter(ROUGH, math.inf))
    return replace(verdict, word="doubtful", sentence=words, high=min(high, FARTHEST))


def tells_shares(problem: DecodingProblem, evidence: Evidence) -> bool:
    """Return whether the densities may be asked for shares and quantiles, with bars.

    So they may after a verdict of sound or rough, and where only records beyond what is seen are in
    doubt: those may be most of the SSE, but are few.
    """
    return judge(problem, replace(evidence, far_share=0.0)).word in TRUSTED


def _hides_records(evidence: Evidence) -> bool:
    """Return whether records far from all clusters explain what is missed, and they matter."""
    is_missed = evidence.slow_deviations > _SURE_DEVIATIONS
    is_large = evidence.hidden_share > _MOST_HIDDEN
    return is_missed and is_large and _may_add(evidence.hidden_share, evidence)


def _may_bury(evidence: Evidence) -> bool:
    """Return whether bounds are so wide that unseen records there may be most of the SSE."""
    is_large = evidence.far_share > _LEAST_BURIED
    is_heavy = evidence.kurtosis > _NORMAL_KURTOSIS
    return is_heavy and is_large and evidence.far_share * evidence.reach > _MOST_BURIED


def _may_grow(evidence: Evidence) -> bool:
    """Return whether a heavy end goes on, beyond what is seen, where it adds much to the SSE."""
    is_heavy = evidence.kurtosis > _HEAVY_KURTOSIS
    return is_heavy and evidence.far_share * evidence.reach > _MOST_BURIED / 2.0


def _may_add(share: float, evidence: Evidence) -> bool:
    """Return whether a share of records at the farthest bound makes the answer no longer sound."""
    return 1.0 + share * evidence.reach > SOUND


def judge_without_evidence(solver: str) -> Verdict:
    """Judge an answer of a solver that gathers no evidence."""
    return Verdict(
        word="doubtful",
        sentence=f"{solver} gathers no evidence of how good its answers are; decode with mixture",
        low=1.0,
        high=math.inf,
    )


def _describe(
    word: str, problem: DecodingProblem, evidence: Evidence, features: tuple[float, ...]
) -> str:
    """State the reason in a sentence: the feature that raises the high end most."""
    if word == "sound":
        return "all densities that may have made the sketch give nearly the same centroids"
    if evidence.features_per_parameter < _LEAST_FEATURES:
        return (
            f"there are too few equations for {problem.n_clusters} clusters: m / (k d) is "
            f"{evidence.features_per_parameter:.3g}, below {_LEAST_FEATURES:g}; more frequencies "
            "or fewer clusters help"
        )
    if evidence.spread_over_scale > _FARTHEST_SCALE:
        return _describe_narrow(problem, evidence)
    if evidence.snr_per_parameter < LEAST_SNR_PER_PARAMETER:
        return _DESCRIPTIONS["noise"](problem, evidence)
    if evidence.held_out > _LARGEST_MISFIT:
        return _DESCRIPTIONS["misfit"](problem, evidence)
    if evidence.kurtosis > _LARGEST_KURTOSIS and word == "doubtful":
        return _describe_tail(evidence)
    if word == "doubtful" and _hides_records(evidence):
        return (
            f"up to {evidence.hidden_share:.1%} of the records may lie far from all clusters, "
            "where the search does not find them: look at the devices for a failed sensor, or "
            "ask for more clusters"
        )
    if word == "doubtful" and _may_bury(evidence):
        times = 1.0 + evidence.far_share * evidence.reach
        return (
            f"some bounds lie so far from all clusters that {evidence.far_share:.1%} of the "
            f"records there, which would go unseen, make the SSE {times:.0f} times as large: "
            "state bounds nearer to the data, or a logarithmic scale"
        )
    if word == "rough" and (evidence.far_share > _MOST_UNSEEN or _may_grow(evidence)):
        return (
            f"a far cluster below {evidence.far_share:.1%} of the records, as failed sensors "
            "make, would go unseen; more records, a larger epsilon or narrower bounds help"
        )
    # Contribution of each feature beyond its contribution in a good answer.
    usual = (1.0, math.log(0.01 + OFFSET), *(0.0 for _ in features[2:]))
    added = [c * (f - u) for c, f, u in zip(_HIGH[1:], features[1:], usual[1:], strict=True)]
    return _DESCRIPTIONS[FEATURES[1 + added.index(max(added))]](problem, evidence)


def _describe_disagreement(_: DecodingProblem, evidence: Evidence) -> str:
    return (
        "densities that agree with the sketch equally well differ in their centroids, by "
        f"{evidence.disagreement:.0%} of the SSE on average; more frequencies, more records or "
        "fewer clusters help"
    )


def _describe_misfit(_: DecodingProblem, evidence: Evidence) -> str:
    return (
        "no model explains the sketch: what was held out of the fit is missed "
        f"{evidence.held_out:.3g} times as much as noise would make it; more frequencies help, "
        "or bounds and scales nearer to the data"
    )


def _describe_tail(evidence: Evidence) -> str:
    return (
        f"few records far away hold much of the variance along axis {evidence.tail_axis + 1} of "
        "the plan, and the sketch sees little of them, so that nothing bounds the SSE; plan a "
        "logarithmic scale for it, or bounds that clip them"
    )


def _describe_noise(problem: DecodingProblem, evidence: Evidence) -> str:
    return (
        f"noise is too strong for {problem.n_clusters} clusters: SNR m / (k d) is "
        f"{evidence.snr_per_parameter:.3g}; fewer clusters, more records or a larger epsilon help"
    )


def _describe_wide(_: DecodingProblem, evidence: Evidence) -> str:
    return (
        f"clusters are narrower than the plan's scale, {evidence.spread_over_scale:.2g} of it, so "
        "that their frequencies see little of them; plan a smaller scale"
    )


def _describe_narrow(_: DecodingProblem, evidence: Evidence) -> str:
    return (
        f"clusters are wider than the plan's scale, {evidence.spread_over_scale:.2g} times, so "
        "that most frequencies see nothing of them; plan a larger scale"
    )


def _describe_instability(_: DecodingProblem, evidence: Evidence) -> str:
    share = 1.0 - float(evidence.stabilities.mean())
    return (
        "several sets of centroids fit the sketch about equally well: a centroid is missing from "
        f"{share:.0%} of them on average; another number of clusters may have one answer"
    )


def _describe_starts(_: DecodingProblem, evidence: Evidence) -> str:
    return (
        f"independent searches ended in different places, {evidence.agreement:.0%} of them in the "
        "best; more replicates or fewer clusters help"
    )


_DESCRIPTIONS: Final = {
    "disagreement": _describe_disagreement,
    "misfit": _describe_misfit,
    "noise": _describe_noise,
    "wide scale": _describe_wide,
    "narrow scale": _describe_narrow,
    "instability": _describe_instability,
    "starts": _describe_starts,
}
