"""Prompt parts, personas, generation, citations and abstention."""

from ._condense import CONVERSATION, Condensed, condense, condense_by_rule, stands_alone
from ._consolidate import Consolidated, ConsolidateOptions, consolidate
from ._context import count_tokens, fit_hits, order_hits, split_hit
from ._corpus import PAGE, CorpusScope, answer_from_corpus, calls_of_corpus, corpus_ids
from ._corpus_read import ChunkItems, find_quote, merged, read_items
from ._flow import AskPlan, ask
from ._guard import AnswerGuard, guarded
from ._marks import (
    CitedSpan,
    Link,
    Marks,
    PlacedMark,
    citation,
    cited_numbers,
    marks_for_hits,
    marks_of_answer,
    quoted_text,
    resolve_citations,
)
from ._options import AnswerOptions, CorpusOptions, DraftOptions, DraftWeights, PromptOptions
from ._prompt import (
    Prompt,
    ReadPrompt,
    compose,
    load_persona,
    load_personas,
    pick_persona,
    presets,
    prompt_parts,
    read_prompt,
    shipped_personas,
)
from ._snippets import NO_MODEL_LINE, snippet_answer
from ._window import MARGIN, PromptFrame, Window, generator_window
from ._write import AnswerSetup, abstains, answer, avg_chunk_score, write

__all__ = [
    "CONVERSATION",
    "MARGIN",
    "NO_MODEL_LINE",
    "PAGE",
    "AnswerGuard",
    "AnswerOptions",
    "AnswerSetup",
    "AskPlan",
    "ChunkItems",
    "CitedSpan",
    "Condensed",
    "ConsolidateOptions",
    "Consolidated",
    "CorpusOptions",
    "CorpusScope",
    "DraftOptions",
    "DraftWeights",
    "Link",
    "Marks",
    "PlacedMark",
    "Prompt",
    "PromptFrame",
    "PromptOptions",
    "ReadPrompt",
    "Window",
    "abstains",
    "answer",
    "answer_from_corpus",
    "ask",
    "avg_chunk_score",
    "calls_of_corpus",
    "citation",
    "cited_numbers",
    "compose",
    "condense",
    "condense_by_rule",
    "consolidate",
    "corpus_ids",
    "count_tokens",
    "find_quote",
    "fit_hits",
    "generator_window",
    "guarded",
    "load_persona",
    "load_personas",
    "marks_for_hits",
    "marks_of_answer",
    "merged",
    "order_hits",
    "pick_persona",
    "presets",
    "prompt_parts",
    "quoted_text",
    "read_items",
    "read_prompt",
    "resolve_citations",
    "shipped_personas",
    "snippet_answer",
    "split_hit",
    "stands_alone",
    "write",
]
