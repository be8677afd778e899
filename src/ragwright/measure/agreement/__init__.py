"""Judges beside people: agreement, people's own agreement, labels needed."""

from ._people import (
    Agreement,
    LabelsNeeded,
    RankFigures,
    judge_difference,
    labels_needed,
    map_to_label_scale,
    people_agreement,
    rank_agreement,
    subtract_bias,
)

__all__ = [
    "Agreement",
    "LabelsNeeded",
    "RankFigures",
    "judge_difference",
    "labels_needed",
    "map_to_label_scale",
    "people_agreement",
    "rank_agreement",
    "subtract_bias",
]
