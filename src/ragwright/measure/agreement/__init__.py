"""Judges beside people: agreement, people's own agreement, labels needed."""

from ._corrected import Labelled, LabelsNeeded, labels_needed, shifted_mean
from ._people import (
    Agreement,
    PeopleAgreement,
    judge_difference,
    on_label_scale,
    people_agreement,
    rank_agreement,
)

__all__ = [
    "Agreement",
    "Labelled",
    "LabelsNeeded",
    "PeopleAgreement",
    "judge_difference",
    "labels_needed",
    "on_label_scale",
    "people_agreement",
    "rank_agreement",
    "shifted_mean",
]
