"""A file that describes a system under test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ...core import ConfigError, option


@dataclass(frozen=True, slots=True)
class SystemOptions:
    """The settings for calling a system under test and reading its replies.

    One of ``call``, ``url`` and ``model`` names the system; ``--system`` takes it directly where
    nothing else has to be said.
    """

    call: str = option("", "A function, pipeline or engine: module:object, or file.py:object.")
    url: str = option("", "Address that takes the question as a JSON POST.")
    model: str = option("", "A chat model that gets the question alone, such as http://host/v1#m.")
    instructions: str = option("", "System prompt for `model`.")
    name: str = option("", "Name in runs and reports; what `call`, `url` or `model` says if empty.")
    version: str = option("", "Version; replies are reused only where it is set and the same.")
    question: str = option("", "Name of the question in a pipeline's input; found out if empty.")
    body: Mapping[str, Any] = option(
        dict,
        "JSON that `url` gets; {question} in its texts becomes the question, the text {messages} "
        "all turns.",
    )
    answer: str = option("", "Place of the answer in the reply: keys with dots, a.0.b.")
    contexts: str = option("", "Place of the passages: documents.*.text.")
    ids: str = option(
        "",
        "Of `url`: place of the ids. Of pipelines: the metadata field that holds a document's id.",
    )
    token: str = option("", "Environment variable that holds a bearer token for `url`.")
    timeout: float = option(120.0, "Seconds for one answer.", gt=0)
    concurrency: int = option(8, "Most questions in work at once; -j lowers it.", ge=1)
    price: float | None = option(None, "Price of one question, for --max-cost and --dry-run.", ge=0)
    match: Literal["auto", "text", "ids"] = option(
        "auto", "How passages are compared with gold: by text where gold has some, else by ids."
    )

    def __post_init__(self) -> None:
        """Refuse a description that names no system, or several.

        Raises:
            ConfigError: So it does.
        """
        keys = [key for key in ("call", "url", "model") if getattr(self, key)]
        if len(keys) > 1:
            raise ConfigError(
                f"the system has both {keys[0]} and {keys[1]}", hint="name it by one of them"
            )

    @property
    def title(self) -> str:
        """The name in runs and reports."""
        return self.name or self.call or self.url or self.model
