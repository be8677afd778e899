from ._asked import (
    Answerer as Answerer,
    answered_by as answered_by,
    asked_row as asked_row,
    unanswered as unanswered,
)
from ._clusters import (
    cluster_of as cluster_of,
    clusters_of_rows as clusters_of_rows,
    shared_by as shared_by,
)
from ._comparing import (
    clusters_of_results as clusters_of_results,
    compare_evaluations as compare_evaluations,
)
from ._distance_runs import (
    distance_evaluation as distance_evaluation,
    distance_row as distance_row,
)
from ._evaluate import (
    answer_flows as answer_flows,
    answer_row as answer_row,
    computed_results as computed_results,
    evaluate_retrieval as evaluate_retrieval,
    plan_after as plan_after,
    ranking_search as ranking_search,
    retrieval_flows as retrieval_flows,
    retrieval_row as retrieval_row,
    score_run as score_run,
    summarise as summarise,
    with_hits as with_hits,
)
from ._evaluating import (
    RunMean as RunMean,
    Work as Work,
    answering_work as answering_work,
    has_result as has_result,
    named_run as named_run,
    promise_note as promise_note,
    ranking_work as ranking_work,
    run_evaluation as run_evaluation,
    run_means as run_means,
    run_work as run_work,
    stored_evaluation as stored_evaluation,
)
from ._given_rows import given_answer as given_answer, gold_texts as gold_texts
from ._gold_notes import gold_warning as gold_warning
from ._judges import (
    differing as differing,
    judge_identity as judge_identity,
    scored_differently as scored_differently,
)
from ._measuring import (
    answering_settings as answering_settings,
    check_models as check_models,
    chosen_measures as chosen_measures,
    judging as judging,
    measures_of_answers as measures_of_answers,
    planned as planned,
)
from ._names import (
    BASELINE as BASELINE,
    KnownRun as KnownRun,
    check_run_name as check_run_name,
    find_run as find_run,
    known_run as known_run,
    known_runs as known_runs,
    sweeps_by_use as sweeps_by_use,
)
from ._notes import with_notes as with_notes
from ._options import Evaluating as Evaluating, RunOptions as RunOptions
from ._planning import spreads_of as spreads_of
from ._result_files import read_results as read_results, results_jsonl as results_jsonl
from ._results import (
    Evaluation as Evaluation,
    Made as Made,
    RowResult as RowResult,
    Slice as Slice,
    evaluation_of as evaluation_of,
    result_body as result_body,
    result_of as result_of,
    slices as slices,
)
from ._review import (
    Label as Label,
    ReviewKey as ReviewKey,
    Sheet as Sheet,
    blind_sheet as blind_sheet,
    read_key as read_key,
    read_labels as read_labels,
    write_key as write_key,
    write_sheet as write_sheet,
)
from ._row_records import row_records as row_records
from ._scoring import (
    OnForecast as OnForecast,
    OnResult as OnResult,
    evaluate as evaluate,
    forecast_rows as forecast_rows,
    forecast_stored as forecast_stored,
    rows_to_score as rows_to_score,
    score_stored as score_stored,
)
from ._served_outputs import (
    evaluate_outputs as evaluate_outputs,
    forecast_outputs as forecast_outputs,
)
from ._sheets import Reviewed as Reviewed, read_sheets as read_sheets
from ._stored import (
    SettingChange as SettingChange,
    changed_settings as changed_settings,
    evaluations_by_name as evaluations_by_name,
    list_runs as list_runs,
    open_results as open_results,
    rows_to_review as rows_to_review,
    write_blind_sheet as write_blind_sheet,
)
from ._suite_runs import evaluate_testset as evaluate_testset, forecast_testset as forecast_testset
from ._system_gold import with_reply as with_reply
from ._systems import (
    Questions as Questions,
    evaluate_system as evaluate_system,
    forecast_system as forecast_system,
    questions_in as questions_in,
    system_handler as system_handler,
)
from ._weak import (
    WeakRow as WeakRow,
    WeakSlice as WeakSlice,
    weak_rows as weak_rows,
    weak_slices as weak_slices,
)
