from ._condense import (
    CONVERSATION as CONVERSATION,
    Condensed as Condensed,
    condense as condense,
    condense_by_rule as condense_by_rule,
    stands_alone as stands_alone,
)
from ._consolidate import (
    Consolidated as Consolidated,
    ConsolidateOptions as ConsolidateOptions,
    consolidate as consolidate,
)
from ._context import (
    count_tokens as count_tokens,
    fit_hits as fit_hits,
    order_hits as order_hits,
    split_hit as split_hit,
)
from ._corpus import (
    PAGE as PAGE,
    CorpusScope as CorpusScope,
    answer_from_corpus as answer_from_corpus,
    calls_of_corpus as calls_of_corpus,
    corpus_ids as corpus_ids,
)
from ._corpus_read import (
    ChunkItems as ChunkItems,
    find_quote as find_quote,
    merged as merged,
    read_items as read_items,
)
from ._flow import (
    AnswerSetup as AnswerSetup,
    AskPlan as AskPlan,
    abstains as abstains,
    answer as answer,
    ask as ask,
    avg_chunk_score as avg_chunk_score,
    write as write,
)
from ._guard import AnswerGuard as AnswerGuard, guarded as guarded
from ._marks import (
    CitedSpan as CitedSpan,
    Link as Link,
    Marks as Marks,
    PlacedMark as PlacedMark,
    citation as citation,
    cited_numbers as cited_numbers,
    marks_for_hits as marks_for_hits,
    marks_of_answer as marks_of_answer,
    quoted_text as quoted_text,
    resolve_citations as resolve_citations,
)
from ._options import (
    AnswerOptions as AnswerOptions,
    CorpusOptions as CorpusOptions,
    DraftOptions as DraftOptions,
    DraftWeights as DraftWeights,
    PromptOptions as PromptOptions,
)
from ._prompt import (
    Prompt as Prompt,
    ReadPrompt as ReadPrompt,
    compose as compose,
    load_persona as load_persona,
    load_personas as load_personas,
    pick_persona as pick_persona,
    presets as presets,
    prompt_parts as prompt_parts,
    read_prompt as read_prompt,
    shipped_personas as shipped_personas,
)
from ._snippets import (
    NO_MODEL_LINE as NO_MODEL_LINE,
    snippet_answer as snippet_answer,
)
from ._window import (
    MARGIN as MARGIN,
    PromptFrame as PromptFrame,
    Window as Window,
    generator_window as generator_window,
)
