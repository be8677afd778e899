from ._drift import (
    DriftDay as DriftDay,
    DriftReport as DriftReport,
    DriftState as DriftState,
    MeasureDrift as MeasureDrift,
    served_drift as served_drift,
    shown_day as shown_day,
)
from ._measuring import (
    Measured as Measured,
    measure_served as measure_served,
)
from ._moves import Moved as Moved, brief_model as brief_model
from ._options import (
    AlertOptions as AlertOptions,
    Measuring as Measuring,
    ServedMeasureOptions as ServedMeasureOptions,
    measure_options as measure_options,
)
