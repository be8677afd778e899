"""Training the embedding model and the reranker, and what they gain."""

from ._questions import SOURCES, ModelTuneOptions, Negatives, name_sources
from ._reranker import tune_embedder, tune_reranker
from ._trainer import TrainingOptions
from ._tutorial import (
    TrainingFigures,
    TunedTable,
    TuneResult,
    TutorialOptions,
    TutorialRow,
    TutorialTable,
    run_tutorial,
)

__all__ = [
    "SOURCES",
    "ModelTuneOptions",
    "Negatives",
    "TrainingFigures",
    "TrainingOptions",
    "TuneResult",
    "TunedTable",
    "TutorialOptions",
    "TutorialRow",
    "TutorialTable",
    "name_sources",
    "run_tutorial",
    "tune_embedder",
    "tune_reranker",
]
