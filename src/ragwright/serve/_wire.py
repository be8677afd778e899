"""The bodies of requests, checked where they come in."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    StrictBool,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema

from ._options import ServeOptions

_LONGEST = 100_000
"""Most characters of a question or of a text to embed."""

Text = Annotated[str, Field(min_length=1, max_length=_LONGEST)]


class Body(BaseModel):
    """A body; keys that it does not name are ignored, as OpenAI's clients send many.

    ``null`` means that a key is not given: both of OpenAI's clients send it so.
    """

    model_config = ConfigDict(extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, data: Any) -> Any:
        return {k: v for k, v in data.items() if v is not None} if isinstance(data, dict) else data

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, make: GetJsonSchemaHandler) -> Any:
        """Declare that the keys that may be left out may be ``null``."""
        named = make(core)
        schema = make.resolve_ref_schema(named)
        for name in schema["properties"].keys() - schema.get("required", ()):
            shape = schema["properties"][name]
            if {"type": "null"} not in shape.get("anyOf", ()):
                schema["properties"][name] = {"anyOf": [shape, {"type": "null"}]}
        return named


_TEXTS = frozenset({"text", "input_text", "output_text"})
"""Types of the parts that are text, in chat completions and in responses."""


class ContentPart(Body):
    """A part of a message."""

    type: str
    text: str = ""


class ChatMessage(Body):
    """A turn of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[ContentPart] | None = None

    def plain_text(self, *, strict: bool = True) -> str:
        """The text of its parts; unless ``strict``, what is not text is left out.

        Raises:
            ValueError: It holds something else than text, such as an image.
        """
        if not isinstance(self.content, list):
            return self.content or ""
        other = next((part.type for part in self.content if part.type not in _TEXTS), None)
        if strict and other is not None:
            raise ValueError(f"a message holds a part of type {other!r}; only text is read")
        return "\n".join(part.text for part in self.content if part.type in _TEXTS)


class StreamOptions(Body):
    """Options for the end of a stream."""

    include_usage: bool = False


class Extras(Body):
    """Ours, below the key ``ragwright`` of a chat request.

    Attributes:
        filters: Hard filters beside the key's, as ``field=value``.
        soft: Soft filters, as ``field=value^weight``.
        source_links: End the answer with links to its sources.
    """

    model_config = ConfigDict(extra="forbid")
    filters: list[str] = Field(default_factory=list, max_length=32)
    soft: list[str] = Field(default_factory=list, max_length=32)
    source_links: StrictBool | None = None

    def links(self, options: ServeOptions) -> bool:
        """True where the answer ends with links to its sources."""
        return options.source_links if self.source_links is None else self.source_links


class ChatRequest(Body):
    """``POST /v1/chat/completions``; sampling parameters are those of the configuration."""

    model: str = ""
    messages: list[ChatMessage] = Field(min_length=1, max_length=1000)
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: int | None = 1
    response_format: dict[str, Any] | None = None
    ragwright: Extras = Field(default_factory=Extras)

    @field_validator("n")
    @classmethod
    def _require_one_answer(cls, n: int | None) -> int | None:
        if n not in (None, 1):
            raise ValueError("one answer at a time: leave n out")
        return n

    @field_validator("response_format")
    @classmethod
    def _require_text_form(cls, form: dict[str, Any] | None) -> dict[str, Any] | None:
        if form is not None and form.get("type", "text") != "text":
            raise ValueError("answers are text with citations; leave response_format out")
        return form


class RetrieveRequest(Body):
    """``POST /v1/retrieve``."""

    model_config = ConfigDict(extra="forbid")
    query: Text
    model: str = ""
    top_k: int | None = Field(None, ge=1, le=1000)
    filters: list[str] = Field(default_factory=list, max_length=32)
    soft: list[str] = Field(default_factory=list, max_length=32)


class EmbeddingsRequest(Body):
    """``POST /v1/embeddings``."""

    input: Text | list[Text]
    model: str = ""
    encoding_format: Literal["float", "base64"] = "float"
    input_type: Literal["query", "passage"] = "passage"
    dimensions: int | None = None

    @field_validator("input", mode="before")
    @classmethod
    def _require_texts(cls, texts: Any) -> Any:
        if not texts or len(texts if isinstance(texts, list) else [texts]) > 2048:
            raise ValueError("give 1 to 2,048 texts")
        if isinstance(texts, list) and any(isinstance(text, int | list) for text in texts):
            raise ValueError(
                "these are tokens of another model; send texts "
                "(LangChain: OpenAIEmbeddings(check_embedding_ctx_length=False))"
            )
        return texts


class FeedbackRequest(Body):
    """``POST /v1/feedback``: what a reader says of an answer or of a draft.

    Attributes:
        id: Id of a chat completion, or of a text of a draft.
        verdict: ``accepted`` or ``rejected``.
        score: On the scale of a measure.
        note: Free text.
        correction: The answer as it should be.
        passages: Numbers of citations of the answer that hold what was asked for, from 1.
    """

    model_config = ConfigDict(extra="forbid")
    id: Annotated[str, Field(min_length=1, max_length=200)]
    verdict: Literal["", "accepted", "rejected"] = ""
    score: float | None = None
    note: Annotated[str, Field(max_length=10_000)] = ""
    correction: Annotated[str, Field(max_length=10_000)] = ""
    passages: Annotated[list[int], Field(max_length=100)] = Field(default_factory=list)


class DraftsRequest(Body):
    """``POST /v1/drafts``; the fields are those of ``ragwright draft``.

    Attributes:
        model: Configuration that is asked.
        models: Models that write, among those of the project file.
        examples: Examples in a prompt, in place of ``answer.draft.examples``.
        pool: Records that examples are taken from, in place of ``answer.draft.pool``.
    """

    model_config = ConfigDict(extra="allow")
    model: str = ""
    models: list[str] = Field(default_factory=list, max_length=16)
    examples: int | None = Field(default=None, ge=1, le=200)
    pool: int | None = Field(default=None, ge=1, le=1000)


class ScoreRequest(Body):
    """``POST /v1/score``: rows in ragas' names, and measures."""

    model_config = ConfigDict(extra="forbid")
    rows: list[dict[str, Any]] = Field(min_length=1, max_length=1000)
    measures: Annotated[str, Field(min_length=1, max_length=2000)]
    model: str = ""
