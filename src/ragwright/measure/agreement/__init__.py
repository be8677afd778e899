"""Judges beside people: agreement, people's own agreement, labels needed."""

from ._corrected import LabelsNeeded, labels_needed, shifted_mean
from ._people import (
    Agreement,
    judge_difference,
    on_label_scale,
    people_agreement,
    rank_agreement,
)

__all__ = [
    "Agreement",
    "LabelsNeeded",
    "judge_difference",
    "labels_needed",
    "on_label_scale",
    "people_agreement",
    "rank_agreement",
    "shifted_mean",
]
