from ._course import ModelTuning as ModelTuning
from ._embedder import tune_embedder as tune_embedder
from ._generated import SOURCES as SOURCES, named_sources as named_sources
from ._pairs import Mining as Mining, Negatives as Negatives
from ._reranker import tune_reranker as tune_reranker
from ._trainer import TrainingOptions as TrainingOptions
from ._tuned import (
    HoldOut as HoldOut,
    TrainingFigures as TrainingFigures,
    Tuned as Tuned,
    TunedTable as TunedTable,
    held_out as held_out,
)
from ._tutorial import (
    TutorialOptions as TutorialOptions,
    TutorialRow as TutorialRow,
    TutorialTable as TutorialTable,
    run_tutorial as run_tutorial,
)
