"""Training the embedding model and the reranker, and what they gain."""

from ._course import ModelTuning
from ._embedder import tune_embedder
from ._generated import SOURCES, named_sources
from ._pairs import Mining, Negatives
from ._reranker import tune_reranker
from ._trainer import TrainingOptions
from ._tuned import HoldOut, TrainingFigures, Tuned, TunedTable, held_out
from ._tutorial import TutorialOptions, TutorialRow, TutorialTable, run_tutorial

__all__ = [
    "SOURCES",
    "HoldOut",
    "Mining",
    "ModelTuning",
    "Negatives",
    "TrainingFigures",
    "TrainingOptions",
    "Tuned",
    "TunedTable",
    "TutorialOptions",
    "TutorialRow",
    "TutorialTable",
    "held_out",
    "named_sources",
    "run_tutorial",
    "tune_embedder",
    "tune_reranker",
]
