from ._adapter_fit import AdapterFit as AdapterFit, fit_adapter as fit_adapter
from ._tuning import (
    AdapterTuning as AdapterTuning,
    TunedAdapter as TunedAdapter,
    tune_adapter as tune_adapter,
    tuned_json as tuned_json,
)
