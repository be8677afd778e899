"""Judges beside people: agreement, people's own agreement, labels needed."""

from ._corrected import LabelsNeeded, labels_needed, subtract_bias
from ._people import (
    Agreement,
    judge_difference,
    map_to_label_scale,
    people_agreement,
    rank_agreement,
)

__all__ = [
    "Agreement",
    "LabelsNeeded",
    "judge_difference",
    "labels_needed",
    "map_to_label_scale",
    "people_agreement",
    "rank_agreement",
    "subtract_bias",
]
