from ._ablating import (
    Ablating,
    AblationResult,
    forecast_ablation,
    plan_ablation,
    run_ablation,
    stored_ablation,
)
from ._confirming import Confirmed, Confirming, confirm, stored_verdict
from ._rehearsing import SweepForecast, forecast_sweep
from ._sweeping import Sweeping, SweepResult, read_study, run_sweep, stored_trials, variant_of

__all__ = [
    "Ablating",
    "AblationResult",
    "Confirmed",
    "Confirming",
    "SweepForecast",
    "SweepResult",
    "Sweeping",
    "confirm",
    "forecast_ablation",
    "forecast_sweep",
    "plan_ablation",
    "read_study",
    "run_ablation",
    "run_sweep",
    "stored_ablation",
    "stored_trials",
    "stored_verdict",
    "variant_of",
]
