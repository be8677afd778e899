"""Judges beside people: agreement, people's own agreement, the corrected mean."""

from ._corrected import Labelled, LabelsNeeded, corrected_mean, labels_needed, shifted_mean
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
    "corrected_mean",
    "judge_difference",
    "labels_needed",
    "on_label_scale",
    "people_agreement",
    "rank_agreement",
    "shifted_mean",
]
