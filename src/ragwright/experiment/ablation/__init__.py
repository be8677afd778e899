"""Ablation: the effect of each part of a prompt."""

from ._ablating import (
    AblationOptions,
    AblationResult,
    forecast_ablation,
    load_ablation,
    plan_ablation,
    run_ablation,
)
from ._part_effects import (
    Ablation,
    EffectOptions,
    PartEffect,
    PartRemoval,
    PartResult,
    ablation_plan,
    part_effects,
    prompt_of,
)

__all__ = [
    "Ablation",
    "AblationOptions",
    "AblationResult",
    "EffectOptions",
    "PartEffect",
    "PartRemoval",
    "PartResult",
    "ablation_plan",
    "forecast_ablation",
    "load_ablation",
    "part_effects",
    "plan_ablation",
    "prompt_of",
    "run_ablation",
]
