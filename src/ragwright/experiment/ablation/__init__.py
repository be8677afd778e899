"""Ablation: the effect of each part of a prompt."""

from ._ablate import (
    AblationOptions,
    AblationResult,
    forecast_ablation,
    load_ablation,
    plan_ablation,
    run_ablation,
)
from ._effects import (
    Ablation,
    EffectOptions,
    PartEffect,
    PartResult,
    ablation_plan,
    add_effects,
    prompt_of,
)

__all__ = [
    "Ablation",
    "AblationOptions",
    "AblationResult",
    "EffectOptions",
    "PartEffect",
    "PartResult",
    "ablation_plan",
    "add_effects",
    "forecast_ablation",
    "load_ablation",
    "plan_ablation",
    "prompt_of",
    "run_ablation",
]
