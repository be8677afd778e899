from ._adapter import AdapterTuning as AdapterTuning, tune_adapter as tune_adapter
from ._adapter_fit import AdapterFit as AdapterFit, fit_adapter as fit_adapter
from ._channels import tune_late as tune_late, tune_sparse as tune_sparse
from ._embedder import tune_embedder as tune_embedder
from ._generated import SOURCES as SOURCES, named_sources as named_sources
from ._losses import Loss as Loss
from ._pairs import Mining as Mining, Negatives as Negatives
from ._ranker import RankerTuning as RankerTuning, tune_ranker as tune_ranker
from ._ranker_fit import (
    FeatureEffect as FeatureEffect,
    RankedQuestion as RankedQuestion,
    RankerFit as RankerFit,
    fit_ranker as fit_ranker,
    flat_trees as flat_trees,
)
from ._reranker import tune_reranker as tune_reranker
from ._teach import ModelTuning as ModelTuning
from ._trainer import TrainingOptions as TrainingOptions
from ._tuned import (
    HoldOut as HoldOut,
    TrainingFigures as TrainingFigures,
    Tuned as Tuned,
    TunedTable as TunedTable,
    held_out as held_out,
    held_out_card as held_out_card,
)
from ._tutorial import (
    TutorialOptions as TutorialOptions,
    TutorialRow as TutorialRow,
    TutorialTable as TutorialTable,
    run_tutorial as run_tutorial,
)
