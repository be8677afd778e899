from ._alignment import (
    BertScorer as BertScorer,
    MoverScorer as MoverScorer,
    mover_score as mover_score,
    transport as transport,
)
from ._catalogue import custom_measure as custom_measure, definitions as definitions
from ._compare import (
    Comparison as Comparison,
    Comparisons as Comparisons,
    compare_rows as compare_rows,
)
from ._defaults import (
    ChosenMeasures as ChosenMeasures,
    default_measures as default_measures,
    ranking_measures as ranking_measures,
)
from ._definition import Definition as Definition, MeasureScale as MeasureScale
from ._edit import common_subsequence as common_subsequence, edit_distance as edit_distance
from ._embedded import (
    QADistances as QADistances,
    distances_of_vectors as distances_of_vectors,
    qa_distances as qa_distances,
)
from ._equivalence import least_rows as least_rows, most_lost as most_lost
from ._gate import (
    GateCheck as GateCheck,
    GateOptions as GateOptions,
    GateOutcome as GateOutcome,
    GateRule as GateRule,
    GateState as GateState,
    JudgeCheck as JudgeCheck,
    gate as gate,
    parse_rule as parse_rule,
)
from ._gold import (
    GOLD as GOLD,
    gold_given as gold_given,
    lacks_gold as lacks_gold,
    marked as marked,
)
from ._judge import judge as judge
from ._judge_call import (
    JudgeCall as JudgeCall,
    Judged as Judged,
    asked as asked,
    object_schema as object_schema,
    schema_text as schema_text,
)
from ._judged import (
    on_rubric_scales as on_rubric_scales,
    rubric_names as rubric_names,
    rubrics_of as rubrics_of,
)
from ._measure import (
    Measure as Measure,
    on_scale as on_scale,
    parse_measure as parse_measure,
    parse_measures as parse_measures,
    unknown_measure as unknown_measure,
)
from ._own_judge import Judge as Judge, Verdict as Verdict, opened_judge as opened_judge
from ._ragas import name_in_ragas as name_in_ragas
from ._reply import (
    Declined as Declined,
    ReplyForm as ReplyForm,
    ordered as ordered,
    read_object as read_object,
    read_verdict as read_verdict,
    text_of as text_of,
)
from ._retrieval import no_relevant_note as no_relevant_note, retrieval_scores as retrieval_scores
from ._rubric import (
    Rubric as Rubric,
    find_rubric as find_rubric,
    load_rubrics as load_rubrics,
    prompts_fingerprint as prompts_fingerprint,
    shipped_rubrics as shipped_rubrics,
)
from ._score import (
    check_setup as check_setup,
    model_fields as model_fields,
    score_row as score_row,
    score_rows as score_rows,
)
from ._selection import Selection as Selection, best_of as best_of
from ._setup import MeasureSetup as MeasureSetup
from ._silence import counted_as_worst as counted_as_worst
from ._spread import (
    FIRST_ORDER as FIRST_ORDER,
    SECOND_ORDER as SECOND_ORDER,
    FlipRate as FlipRate,
    JudgeSpread as JudgeSpread,
    flip_rate as flip_rate,
    judge_spread as judge_spread,
    of_repeats as of_repeats,
)
from ._statistics import (
    Summary as Summary,
    Tally as Tally,
    aggregate as aggregate,
    known_measure as known_measure,
    known_scale as known_scale,
)
from ._text import stands_in as stands_in
from ._words import (
    answer_words as answer_words,
    content_words as content_words,
    plain_words as plain_words,
)
from .agreement import (
    Agreement as Agreement,
    Calibration as Calibration,
    Labelled as Labelled,
    LabelsNeeded as LabelsNeeded,
    PeopleAgreement as PeopleAgreement,
    calibrate as calibrate,
    corrected_mean as corrected_mean,
    judge_difference as judge_difference,
    labels_needed as labels_needed,
    on_label_scale as on_label_scale,
    people_agreement as people_agreement,
    rank_agreement as rank_agreement,
)
from .statistics import (
    LEAST_P as LEAST_P,
    PLAN_MARGINS as PLAN_MARGINS,
    TYPICAL_SPREADS as TYPICAL_SPREADS,
    Drift as Drift,
    DriftVerdict as DriftVerdict,
    Estimate as Estimate,
    ScoreSpread as ScoreSpread,
    Values as Values,
    Watched as Watched,
    clopper_pearson as clopper_pearson,
    confidence_sequence as confidence_sequence,
    drift as drift,
    holm as holm,
    incomplete_beta as incomplete_beta,
    krippendorff as krippendorff,
    mean_interval as mean_interval,
    p_text as p_text,
    period_alpha as period_alpha,
    permutation_p as permutation_p,
    resampled as resampled,
    score_spread as score_spread,
    smallest_difference as smallest_difference,
    standard_error as standard_error,
    student_quantile as student_quantile,
)
