"""Training the embedding model and the reranker, and what they gain."""

from ._course import ModelTuneOptions
from ._embedder import tune_embedder
from ._generated import SOURCES, name_sources
from ._pairs import MiningOptions, Negatives
from ._reranker import tune_reranker
from ._trainer import TrainingOptions
from ._tuned import HoldOut, TrainingFigures, TunedTable, TuneResult, compare_held_out
from ._tutorial import TutorialOptions, TutorialRow, TutorialTable, run_tutorial

__all__ = [
    "SOURCES",
    "HoldOut",
    "MiningOptions",
    "ModelTuneOptions",
    "Negatives",
    "TrainingFigures",
    "TrainingOptions",
    "TuneResult",
    "TunedTable",
    "TutorialOptions",
    "TutorialRow",
    "TutorialTable",
    "compare_held_out",
    "name_sources",
    "run_tutorial",
    "tune_embedder",
    "tune_reranker",
]
