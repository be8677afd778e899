"""What each search channel adds: rows as answered, beside the same without the channel."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from ...core import Score
from ...measure import Comparison, Measure, compare_rows
from ._oracles import DiagnosedRow
from ._upward import grown, named, upward_score


@dataclass(frozen=True, slots=True)
class ChannelEffect:
    """What a search channel adds by one measure; a positive difference is an improvement.

    Attributes:
        channel: The channel.
        measure: Text of the measure.
        without: Mean without the channel, on the compared rows.
        added: The search without it compared with the search with it.
    """

    channel: str
    measure: str
    without: float | None
    added: Comparison


def channel_effects(
    rows: Sequence[DiagnosedRow],
    measures: Sequence[Measure],
    seed: int,
    clusters: Mapping[str, Hashable] | None,
) -> tuple[ChannelEffect, ...]:
    """The effect of every channel by every measure; all of them are one family of tests."""
    rows = [row for row in rows if row.without]
    keys = [(name, at) for name in (rows[0].without if rows else ()) for at in range(len(measures))]
    if not keys:
        return ()
    without: dict[str, list[Score]] = {}
    with_all: dict[str, list[Score]] = {}
    for row in rows:
        sides: tuple[list[Score], list[Score]] = ([], [])
        for name, at in keys:
            text = f"{name} {measures[at]}"
            for side, score in zip(
                sides, (row.without[name][at], row.plain.scores[at]), strict=True
            ):
                side.append(upward_score(score, measures[at], text))
        for table, scores in zip((without, with_all), sides, strict=True):
            table[row.plain.row_id] = scores
    scales = {f"{name} {measures[at]}": grown(measures[at]) for name, at in keys}
    added = compare_rows(without, with_all, seed=seed, clusters=clusters, scales=scales)
    effects = []
    for name, at in keys:
        measure, text = measures[at], f"{name} {measures[at]}"
        mean = added[text].mean_a
        upward = measure.definition.higher_is_better
        before = mean if mean is None or upward else -mean
        effects.append(ChannelEffect(name, str(measure), before, named(added[text], str(measure))))
    return tuple(effects)
