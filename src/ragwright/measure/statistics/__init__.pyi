from ._agreement_statistics import (
    AlphaLevel as AlphaLevel,
    Estimate as Estimate,
    Ratings as Ratings,
    Statistic as Statistic,
    auc as auc,
    difference as difference,
    kappa as kappa,
    kendall as kendall,
    krippendorff as krippendorff,
    pearson as pearson,
    ratings_of as ratings_of,
    resampled as resampled,
    spearman as spearman,
)
from ._drift import (
    Drift as Drift,
    DriftVerdict as DriftVerdict,
    Watched as Watched,
    confidence_sequence as confidence_sequence,
    drift as drift,
    period_alpha as period_alpha,
)
from ._intervals import (
    FEW_SEEN as FEW_SEEN,
    NORMAL as NORMAL,
    TAIL as TAIL,
    Method as Method,
    Values as Values,
    clopper_pearson as clopper_pearson,
    difference_interval as difference_interval,
    incomplete_beta as incomplete_beta,
    mean_interval as mean_interval,
    numbered as numbered,
    standard_error as standard_error,
    student_quantile as student_quantile,
    unseen_interval as unseen_interval,
)
from ._p_values import (
    LEAST_P as LEAST_P,
    holm as holm,
    p_text as p_text,
    permutation_p as permutation_p,
)
from ._power import (
    LEVEL as LEVEL,
    RowsNeeded as RowsNeeded,
    smallest_difference as smallest_difference,
)
