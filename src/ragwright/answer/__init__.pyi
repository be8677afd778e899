from ._ask import AskPlan, ask
from ._citations import citation, cited_numbers, resolve_citations
from ._condense import Condensed, condense, condense_by_rule
from ._consolidate import Consolidated, ConsolidateOptions, consolidate
from ._context import (
    count_tokens,
    fit_hits,
    order_hits,
    split_hit,
)
from ._corpus import (
    CorpusScope,
    answer_from_corpus,
    corpus_ids,
)
from ._draft import Underway, draft, no_model
from ._draft_copies import containment
from ._draft_find import DraftPlan, Pool, find_pool
from ._draft_records import DraftBatch, DraftPrompt, DraftRequest, DraftText
from ._draft_split import Split, split_reply
from ._extract import Selection, Sentence, select, split_sentences
from ._flow import AnswerSetup, abstains, answer, avg_chunk_score, extract, write
from ._options import AnswerOptions, CorpusOptions, DraftOptions, DraftWeights, PromptOptions
from ._personas import load_persona, load_personas, pick_persona, shipped_personas
from ._prompt import Prompt, ReadPrompt, compose, part_names, presets, prompt_parts, read_prompt
from ._window import (
    PromptFrame,
    Window,
    generator_window,
)

__all__ = [
    "AnswerOptions",
    "AnswerSetup",
    "AskPlan",
    "Condensed",
    "ConsolidateOptions",
    "Consolidated",
    "CorpusOptions",
    "CorpusScope",
    "DraftBatch",
    "DraftOptions",
    "DraftPlan",
    "DraftPrompt",
    "DraftRequest",
    "DraftText",
    "DraftWeights",
    "Pool",
    "Prompt",
    "PromptFrame",
    "PromptOptions",
    "ReadPrompt",
    "Selection",
    "Sentence",
    "Split",
    "Underway",
    "Window",
    "abstains",
    "answer",
    "answer_from_corpus",
    "ask",
    "avg_chunk_score",
    "citation",
    "cited_numbers",
    "compose",
    "condense",
    "condense_by_rule",
    "consolidate",
    "containment",
    "corpus_ids",
    "count_tokens",
    "draft",
    "extract",
    "find_pool",
    "fit_hits",
    "generator_window",
    "load_persona",
    "load_personas",
    "no_model",
    "order_hits",
    "part_names",
    "pick_persona",
    "presets",
    "prompt_parts",
    "read_prompt",
    "resolve_citations",
    "select",
    "shipped_personas",
    "split_hit",
    "split_reply",
    "split_sentences",
    "write",
]
