from ._ablation import (
    ablation_json as ablation_json,
    ablation_table as ablation_table,
)
from ._answer_changes import (
    AnswerChange as AnswerChange,
    answer_changes as answer_changes,
    answer_changes_json as answer_changes_json,
    answer_changes_text as answer_changes_text,
)
from ._answers import (
    answer_json as answer_json,
    batch_json as batch_json,
    hit_json as hit_json,
    snippet_json as snippet_json,
)
from ._audit import (
    audit_json as audit_json,
    audit_table as audit_table,
    audit_verdict as audit_verdict,
)
from ._audit_page import audit_page as audit_page
from ._baseline import (
    baseline_json as baseline_json,
    baseline_table as baseline_table,
    baselines_table as baselines_table,
)
from ._charts import (
    DARK as DARK,
    LIGHT as LIGHT,
    Chart as Chart,
    Theme as Theme,
    heat as heat,
    heat_span as heat_span,
    themed as themed,
)
from ._curves import (
    curves_json as curves_json,
    curves_table as curves_table,
)
from ._data import (
    comparison_json as comparison_json,
    gate_json as gate_json,
    summary_csv as summary_csv,
    summary_json as summary_json,
)
from ._diagnosis import (
    diagnosis_json as diagnosis_json,
    diagnosis_table as diagnosis_table,
    lost_rows_text as lost_rows_text,
    lost_run_rows_text as lost_run_rows_text,
    run_diagnosis_json as run_diagnosis_json,
    run_diagnosis_table as run_diagnosis_table,
)
from ._distances import null_bands as null_bands
from ._gate_comment import gate_markdown as gate_markdown
from ._junit import gate_junit as gate_junit, rows_junit as rows_junit
from ._pack import (
    STATES as STATES,
    Packed as Packed,
    pack_rows as pack_rows,
    prompt_pieces as prompt_pieces,
    unpacked as unpacked,
)
from ._page import formatting as formatting, stylesheet as stylesheet
from ._passport_page import (
    passport_html as passport_html,
    passport_verdict as passport_verdict,
)
from ._passport_table import passport_table as passport_table
from ._plan import plan_json as plan_json, plan_table as plan_table
from ._promise import (
    certificate_json as certificate_json,
    promise_json as promise_json,
    promise_status_json as promise_status_json,
    promise_status_text as promise_status_text,
    promise_text as promise_text,
)
from ._readers import (
    generators_json as generators_json,
    generators_table as generators_table,
)
from ._relations import (
    parameter_relations as parameter_relations,
    spearman as spearman,
    value_text as value_text,
)
from ._report import Report as Report
from ._reporting import Reporting as Reporting, report_subject as report_subject
from ._row_files import RowFile as RowFile, check_row_file as check_row_file, row_file as row_file
from ._subject import (
    Board as Board,
    Entry as Entry,
    Subject as Subject,
)
from ._text import (
    comparison_table as comparison_table,
    gate_table as gate_table,
    rows_table as rows_table,
    slice_table as slice_table,
    summary_table as summary_table,
    text_table as text_table,
    unequal_depths as unequal_depths,
)
from ._trials import (
    BoardView as BoardView,
    TrialLike as TrialLike,
    leaderboard_table as leaderboard_table,
    trial_json as trial_json,
)
from ._tuned import (
    tuned_headline as tuned_headline,
    tuned_json as tuned_json,
    tuned_table as tuned_table,
    tuned_use as tuned_use,
)
from ._tutorial import tutorial_json as tutorial_json, tutorial_table as tutorial_table
from ._verdicts import (
    verdict_json as verdict_json,
    verdict_table as verdict_table,
)
from ._weak import failing_json as failing_json, failing_text as failing_text
