"""Words on answers to questions: why there are no bars, and what the figures follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sfumato.learning.answers.columns import AskedColumn
from sfumato.learning.decoding.bars import BarsWord, compute_miss
from sfumato.shared.wire.objects.questions import QuestionsRequest

__all__ = ["describe_answers"]


def describe_answers(
    questions: QuestionsRequest,
    columns: Mapping[str, AskedColumn],
    *,
    bars: BarsWord,
    held_out: float,
    n_records: float,
    doubt: str,
) -> list[str]:
    """Describe what to know about answers, doubts first.

    Parameters
    ----------
    questions, columns
        The questions, and the columns that they are about, by name.
    bars, held_out
        Kind of the bars, and how badly the densities miss what was held out.
    n_records
        Number of records.
    doubt
        Sentence on a verdict that is not trusted; empty for others.
    """
    words = []
    if doubt and bars != "none":
        words.append(f"{doubt}; bars leave that out")
    asked = [columns[name] for name in _list_names(questions)]
    unknown = [each.name for each in asked if not each.is_known]
    drawn = {each.dimension for each in questions.marginals}
    followed = [
        columns[name].name
        for name in _list_names(replace(questions, marginals=[]))
        if columns[name].distribution is not None
    ]
    bare = [each.name for each in asked if each.name in drawn and each.step is None]
    if bars == "none":
        words.append(
            "no bars are shown: no density describes this sketch well enough to tell how far "
            "the answers may be off"
        )
    elif unknown:
        words.append(
            f"no bars are shown for {', '.join(unknown)}: nothing tells whether some values "
            "are far commoner than those beside them, which a sketch blurs. Name a histogram "
            "of the same records, or state the step of its values in the plan"
        )
    if bars == "rough":
        words.append(
            "bars are rough: the densities behind them describe the records so badly that few "
            "such cases were there to tell how often they hold"
        )
    elif bars == "stated" and compute_miss(held_out) == 1.0:
        words.append(
            "bars are longer than the densities behind them suggest, which miss the sketch by "
            "more than its noise"
        )
    if questions.allow_narrow and len(followed) < len(asked):
        words.append(
            "ranges narrower than half of the plan's scale may be far off: the sketch blurs "
            "details of that size"
        )
    if bare and bars != "none" and not unknown:
        words.append(
            f"densities of {', '.join(bare)} have no bands: they do not follow the histogram, "
            "and leave out what the sketch blurs"
        )
    if followed:
        words.append(f"values of {', '.join(followed)} follow a histogram of the records")
    words += [
        f"{each.name}: the plan's bounds are narrower than the histogram's, so values beyond "
        f"{' and '.join(f'{bound:.5g}' for bound in each.cut)} count as that, in means too"
        for each in asked
        if each.cut
    ]
    words.append(
        f"about {n_records:,.0f} records, clipped to the plan's bounds: those beyond a "
        "bound stand on it"
    )
    return words


def _list_names(questions: QuestionsRequest) -> list[str]:
    """List the columns that questions are about, each once."""
    names = [name for box in questions.ranges for name in box]
    names += [each.dimension for each in questions.quantiles]
    names += [each.dimension for each in questions.marginals]
    names += [name for each in questions.means for name in (each.mean_of, *each.within)]
    return list(dict.fromkeys(names))
