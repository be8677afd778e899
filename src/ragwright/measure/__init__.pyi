from ._agreement import Calibration, calibrate
from ._agreement_statistics import Estimate
from ._alignment import BertScorer, MoverScorer
from ._catalogue import definitions
from ._compare import Comparison, Comparisons, compare_rows, holm
from ._defaults import ChosenMeasures, default_measures, ranking_measures
from ._definition import Definition, MeasureScale
from ._edit import edit_distance
from ._embedded import QADistances, qa_distances
from ._equivalence import least_rows, most_lost
from ._gate import (
    GateCheck,
    GateOptions,
    GateOutcome,
    GateRule,
    GateState,
    JudgeCheck,
    gate,
    judge_check,
    parse_rule,
)
from ._gold import marked
from ._judge import judge
from ._judge_call import JudgeCall, Judged, asked, object_schema, schema_text
from ._judged import on_rubric_scales, rubric_names, rubrics_of
from ._measure import Measure, on_scale, parse_measure, parse_measures
from ._reply import ReplyForm, ordered, read_object, text_of
from ._retrieval import no_relevant_note, retrieval_scores
from ._rubric import Rubric, load_rubrics, prompts_fingerprint, shipped_rubrics
from ._score import check_setup, score_row, score_rows
from ._selection import Selection, best_of
from ._setup import MeasureSetup
from ._spread import FlipRate, JudgeSpread, flip_rate, judge_spread
from ._statistics import Summary, Tally, aggregate, known_scale
from ._text import stands_in
from ._words import answer_words, content_words

__all__ = [
    "BertScorer",
    "Calibration",
    "ChosenMeasures",
    "Comparison",
    "Comparisons",
    "Definition",
    "Estimate",
    "FlipRate",
    "GateCheck",
    "GateOptions",
    "GateOutcome",
    "GateRule",
    "GateState",
    "JudgeCall",
    "JudgeCheck",
    "JudgeSpread",
    "Judged",
    "Measure",
    "MeasureScale",
    "MeasureSetup",
    "MoverScorer",
    "QADistances",
    "ReplyForm",
    "Rubric",
    "Selection",
    "Summary",
    "Tally",
    "aggregate",
    "answer_words",
    "asked",
    "best_of",
    "calibrate",
    "check_setup",
    "compare_rows",
    "content_words",
    "default_measures",
    "definitions",
    "edit_distance",
    "flip_rate",
    "gate",
    "holm",
    "judge",
    "judge_check",
    "judge_spread",
    "known_scale",
    "least_rows",
    "load_rubrics",
    "marked",
    "most_lost",
    "no_relevant_note",
    "object_schema",
    "on_rubric_scales",
    "on_scale",
    "ordered",
    "parse_measure",
    "parse_measures",
    "parse_rule",
    "prompts_fingerprint",
    "qa_distances",
    "ranking_measures",
    "read_object",
    "retrieval_scores",
    "rubric_names",
    "rubrics_of",
    "schema_text",
    "score_row",
    "score_rows",
    "shipped_rubrics",
    "stands_in",
    "text_of",
]
