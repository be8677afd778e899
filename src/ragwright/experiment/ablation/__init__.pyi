from ._ablating import (
    Ablating as Ablating,
    AblationResult as AblationResult,
    forecast_ablation as forecast_ablation,
    plan_ablation as plan_ablation,
    run_ablation as run_ablation,
    stored_ablation as stored_ablation,
)
from ._ablation import (
    Ablated as Ablated,
    AblationPlan as AblationPlan,
    Contrast as Contrast,
    ablation_plan as ablation_plan,
    deletion as deletion,
    prompt_of as prompt_of,
)
from ._ablation_verdict import Ablation as Ablation, least_rows as least_rows
from ._part_effects import (
    EffectOptions as EffectOptions,
    PartEffect as PartEffect,
    PartResult as PartResult,
    part_body as part_body,
    part_effects as part_effects,
    part_of as part_of,
    part_tokens as part_tokens,
    prompt_sizes as prompt_sizes,
)
