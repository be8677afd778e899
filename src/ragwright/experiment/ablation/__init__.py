"""Ablation: the effect of each part of a prompt."""

from ._ablating import (
    Ablating,
    AblationResult,
    forecast_ablation,
    load_ablation,
    plan_ablation,
    run_ablation,
)
from ._ablation_verdict import Ablation, least_rows
from ._part_effects import (
    Ablated,
    AblationPlan,
    Contrast,
    EffectOptions,
    PartEffect,
    PartResult,
    ablation_plan,
    deletion,
    part_body,
    part_effects,
    part_of,
    part_tokens,
    prompt_of,
    prompt_sizes,
)

__all__ = [
    "Ablated",
    "Ablating",
    "Ablation",
    "AblationPlan",
    "AblationResult",
    "Contrast",
    "EffectOptions",
    "PartEffect",
    "PartResult",
    "ablation_plan",
    "deletion",
    "forecast_ablation",
    "least_rows",
    "load_ablation",
    "part_body",
    "part_effects",
    "part_of",
    "part_tokens",
    "plan_ablation",
    "prompt_of",
    "prompt_sizes",
    "run_ablation",
]
