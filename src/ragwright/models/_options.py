"""Settings of the sections ``models``, ``embed`` and ``keyword`` of a project file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ..core import ConfigError, option
from ._language import LANGUAGES

Similarity: TypeAlias = Literal["cosine", "dot"]


Pooling: TypeAlias = Literal["mean", "cls", "max", "last"]


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """One entry under ``models:`` in the project file, for a model or a whole provider.

    An entry whose name has no colon is about a provider: it changes a known one or, with
    ``base``, makes a new one. Entries of a model win over those of its provider.
    """

    base: str = option("", "Base address of an OpenAI-compatible server.")
    key_env: str = option("", "Environment variable that holds the key.")
    backend: str = option("", "Custom back end, as module:object.")
    price_in: float | None = option(None, "Price of a million prompt tokens.", ge=0)
    price_out: float | None = option(None, "Price of a million completion tokens.", ge=0)
    context_window: int | None = option(None, "Most tokens of prompt and reply together.", ge=1)
    tokenizer: str = option(
        "", "Folder with the model's tokenizer.json: prompts are fitted by it, not by estimates."
    )
    concurrency: int | None = option(None, "Most requests in flight.", ge=1)
    requests_per_minute: int | None = option(None, "Most requests a minute.", ge=1)
    connect_timeout: float | None = option(None, "Seconds to connect to the server.", gt=0)
    first_piece_timeout: float | None = option(
        None, "Seconds until the first piece of a reply arrives.", gt=0
    )
    silence_timeout: float | None = option(
        None, "Seconds without a piece after which a reply is given up.", gt=0
    )
    timeout: float | None = option(None, "Most seconds for one attempt as a whole.", gt=0)
    max_reply_bytes: int | None = option(
        None, "Most bytes of one reply, decompressed; 64 MiB where not set.", ge=1
    )
    params: Mapping[str, Any] = option(dict, "Parameters sent unless the request names them.")
    query_params: Mapping[str, Any] = option(
        dict, "Parameters sent with queries to embed.", when="index"
    )
    passage_params: Mapping[str, Any] = option(
        dict, "Parameters sent with passages to embed.", when="index"
    )
    query_prefix: str | None = option(None, "Text put before queries.", when="index")
    passage_prefix: str | None = option(None, "Text put before passages.", when="index")
    pooling: Pooling | None = option(None, "How token vectors become one vector.", when="index")
    similarity: Similarity | None = option(None, "cosine or dot (product).", when="index")
    dimensions: int | None = option(None, "Length the vectors are cut to.", when="index", ge=1)
    batch_size: int | None = option(None, "Most texts in one embeddings call.", ge=1)


@dataclass(frozen=True, slots=True)
class EmbedOptions:
    """The ``embed`` section of a project: which model makes vectors, and how.

    None means: taken from the model's entry under ``models:``, then from its family, then from the
    files beside its weights.
    """

    model: str = option(
        "", "Embedding model, such as hf:ORG/NAME; empty for keyword search alone.", when="index"
    )
    query_prefix: str | None = option(None, "Text put before queries.", when="index")
    passage_prefix: str | None = option(None, "Text put before passages.", when="index")
    pooling: Pooling | None = option(None, "How token vectors become one vector.", when="index")
    similarity: Similarity | None = option(None, "cosine or dot (product).", when="index")
    long_texts: Literal["pool", "refuse"] = option(
        "pool", "Texts longer than the window: mean over windows, or an error.", when="index"
    )
    batch_size: int = option(32, "Most texts that one call of a local model holds.", ge=1)
    threads: int = option(1, "Threads of a local model; vectors do not depend on it.", ge=1)
    dimensions: int | None = option(
        None, "Length the vectors are cut to, for models trained for it.", when="index", ge=1
    )


@dataclass(frozen=True, slots=True)
class AnalyzerOptions:
    """The settings that turn text into words; any change requires a new index."""

    language: str = option(
        "auto", "Language: auto, en, fr, de, es, it, pt, nl, or none.", when="index"
    )
    stem: bool = option(True, "Reduce words to their stems.", when="index")
    stop_words: bool = option(True, "Leave function words out.", when="index")
    fold: bool = option(True, "Treat accented letters as plain ones.", when="index")
    title_weight: int = option(
        2,
        "Weight of a word in the title or in a heading; a word of the text has 1.",
        when="index",
        ge=0,
    )

    def __post_init__(self) -> None:
        """Refuse an unknown language."""
        languages = ("auto", *LANGUAGES, "none")
        if self.language not in languages:
            raise ConfigError(
                f"unknown analyzer language {self.language!r}",
                hint=f"one of {', '.join(languages)}; none analyses without stems and stop words",
            )


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Limits on a server's silence; a whole reply has no limit.

    Attributes:
        connect: Seconds to connect.
        first_piece: Seconds from sending a request to the first piece of its reply.
        silence: Seconds between two pieces.
    """

    connect: float = 15.0
    first_piece: float = 600.0
    silence: float = 120.0

    def merged(self, settings: ModelSettings) -> TimeLimits:
        """These limits, with those that a model's settings name."""
        return TimeLimits(
            settings.connect_timeout or self.connect,
            settings.first_piece_timeout or self.first_piece,
            settings.silence_timeout or self.silence,
        )
