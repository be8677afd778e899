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
    AblationPlan,
    Contrast,
    EffectOptions,
    PartEffect,
    PartRemoval,
    PartResult,
    ablation_plan,
    deletion,
    least_rows,
    part_effects,
    part_tokens,
    prompt_of,
    prompt_sizes,
)

__all__ = [
    "Ablation",
    "AblationOptions",
    "AblationPlan",
    "AblationResult",
    "Contrast",
    "EffectOptions",
    "PartEffect",
    "PartRemoval",
    "PartResult",
    "ablation_plan",
    "deletion",
    "forecast_ablation",
    "least_rows",
    "load_ablation",
    "part_effects",
    "part_tokens",
    "plan_ablation",
    "prompt_of",
    "prompt_sizes",
    "run_ablation",
]
