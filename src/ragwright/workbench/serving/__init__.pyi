from ._drafting import Drafting, draft_plan, drafts, forecast_drafts, run_drafts
from ._outputs import evaluate_outputs, forecast_outputs
from ._promotion import Gating, Promoted, Promoting, gate_evaluation, promote, promote_back
from ._saving import origin_of, save_drafts

__all__ = [
    "Drafting",
    "Gating",
    "Promoted",
    "Promoting",
    "draft_plan",
    "drafts",
    "evaluate_outputs",
    "forecast_drafts",
    "forecast_outputs",
    "gate_evaluation",
    "origin_of",
    "promote",
    "promote_back",
    "run_drafts",
    "save_drafts",
]
