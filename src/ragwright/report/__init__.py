"""Reports from stored runs: tables, charts, one HTML file, JSON, CSV and JUnit XML."""

from ._ablation import ablation_json, ablation_table
from ._answer_changes import AnswerChange, answer_changes, answer_changes_json, answer_changes_text
from ._answers import answer_json, batch_json, hit_json, snippet_json
from ._audit import audit_json, audit_table, audit_verdict
from ._audit_page import audit_page
from ._baseline import baseline_json, baseline_table, baselines_table
from ._charts import DARK, LIGHT, Chart, Theme, apply_theme, heat, heat_span
from ._curves import curves_json, curves_table
from ._data import comparison_json, gate_json, summary_csv, summary_json
from ._diagnosis import (
    diagnosis_json,
    diagnosis_table,
    run_diagnosis_json,
    run_diagnosis_table,
    write_lost_rows,
    write_lost_run_rows,
)
from ._distances import null_bands
from ._gate_comment import gate_markdown
from ._junit import gate_junit, rows_junit
from ._pack import STATES, Packed, pack_rows, prompt_pieces, unpack_block
from ._page import formatting, stylesheet
from ._passport_page import passport_html, passport_verdict
from ._passport_table import passport_table
from ._plan import plan_json, plan_table
from ._promise import (
    certificate_json,
    promise_json,
    promise_status_json,
    promise_status_text,
    promise_text,
)
from ._readers import generators_json, generators_table
from ._relations import parameter_relations, spearman, value_text
from ._report import Report, verdict_json, verdict_table
from ._reporting import Reporting, report_subject
from ._row_files import ScoredRowFile, check_row_file, row_file
from ._subject import Board, ScoredRun, Subject
from ._text import (
    comparison_table,
    counts_table,
    gate_table,
    rows_table,
    slice_table,
    summary_table,
    text_table,
    unequal_depths,
)
from ._trials import BoardView, TrialLike, leaderboard_table, trial_json
from ._tuned import make_tuned_json, make_tuned_table, write_tuned_headline, write_tuned_use
from ._tutorial import tutorial_json, tutorial_table
from ._weak import failing_json, failing_text

__all__ = [
    "DARK",
    "LIGHT",
    "STATES",
    "AnswerChange",
    "Board",
    "BoardView",
    "Chart",
    "Packed",
    "Report",
    "Reporting",
    "ScoredRowFile",
    "ScoredRun",
    "Subject",
    "Theme",
    "TrialLike",
    "ablation_json",
    "ablation_table",
    "answer_changes",
    "answer_changes_json",
    "answer_changes_text",
    "answer_json",
    "apply_theme",
    "audit_json",
    "audit_page",
    "audit_table",
    "audit_verdict",
    "baseline_json",
    "baseline_table",
    "baselines_table",
    "batch_json",
    "certificate_json",
    "check_row_file",
    "comparison_json",
    "comparison_table",
    "counts_table",
    "curves_json",
    "curves_table",
    "diagnosis_json",
    "diagnosis_table",
    "failing_json",
    "failing_text",
    "formatting",
    "gate_json",
    "gate_junit",
    "gate_markdown",
    "gate_table",
    "generators_json",
    "generators_table",
    "heat",
    "heat_span",
    "hit_json",
    "leaderboard_table",
    "make_tuned_json",
    "make_tuned_table",
    "null_bands",
    "pack_rows",
    "parameter_relations",
    "passport_html",
    "passport_table",
    "passport_verdict",
    "plan_json",
    "plan_table",
    "promise_json",
    "promise_status_json",
    "promise_status_text",
    "promise_text",
    "prompt_pieces",
    "report_subject",
    "row_file",
    "rows_junit",
    "rows_table",
    "run_diagnosis_json",
    "run_diagnosis_table",
    "slice_table",
    "snippet_json",
    "spearman",
    "stylesheet",
    "summary_csv",
    "summary_json",
    "summary_table",
    "text_table",
    "trial_json",
    "tutorial_json",
    "tutorial_table",
    "unequal_depths",
    "unpack_block",
    "value_text",
    "verdict_json",
    "verdict_table",
    "write_lost_rows",
    "write_lost_run_rows",
    "write_tuned_headline",
    "write_tuned_use",
]
