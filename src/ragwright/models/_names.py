"""Names of models and the known servers.

A model is ``provider:name``, or ``http(s)://host/v1#name`` for any server that speaks the
OpenAI protocol. Providers are data: another one is four fields in the settings.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

from ..core import ConfigError, MissingKeyError, list_changed_options, option, suggest_name
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
    concurrency: int | None = option(None, "Most requests in flight.", ge=1)
    requests_per_minute: int | None = option(None, "Most requests a minute.", ge=1)
    timeout: float | None = option(None, "Most seconds for one attempt as a whole.", gt=0)
    params: Mapping[str, Any] = option(dict, "Parameters sent unless the request names them.")
    query_params: Mapping[str, Any] = option(
        dict, "Parameters sent with queries to embed.", when="index"
    )
    passage_params: Mapping[str, Any] = option(
        dict, "Parameters sent with passages to embed.", when="index"
    )
    batch_size: int | None = option(None, "Most texts in one embeddings call.", ge=1)


@dataclass(frozen=True, slots=True)
class EmbedOptions:
    """The ``embed`` section of a project: which model makes vectors, and how.

    None means: taken from the files beside the model's weights, else from what its family needs.
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


NO_MODEL = "snippet"
"""Name in the place of a chat model where there is none: the best passages are shown."""


@dataclass(frozen=True, slots=True)
class Provider:
    """The meaning of a provider name: a server or a family of local models.

    Attributes:
        base: Base address of the OpenAI-compatible server; ``{VARIABLE}`` is read from the
            environment. Empty for local models.
        key_env: Environment variable that holds the key, empty where none is needed.
        kind: ``server``; ``folder`` for local models in a folder; ``object`` for a custom back end.
        free: Calls cost nothing when the settings state no price.
        documented: Page of the provider that states the address.
    """

    base: str = ""
    key_env: str = ""
    kind: Literal["server", "folder", "object"] = "server"
    free: bool = False
    documented: str = ""


PROVIDERS: Mapping[str, Provider] = MappingProxyType(
    {
        "anthropic": Provider(
            "https://api.anthropic.com/v1",
            "ANTHROPIC_API_KEY",
            documented="https://docs.claude.com/en/api/openai-sdk",
        ),
        "azure": Provider(
            "{AZURE_OPENAI_ENDPOINT}/openai/v1",
            "AZURE_OPENAI_API_KEY",
            documented="https://learn.microsoft.com/azure/ai-foundry/openai/api-version-lifecycle",
        ),
        "bedrock": Provider(
            "https://bedrock-runtime.{AWS_REGION}.amazonaws.com/openai/v1",
            "AWS_BEARER_TOKEN_BEDROCK",
            documented="https://docs.aws.amazon.com/bedrock/latest/userguide/"
            "inference-chat-completions.html",
        ),
        "cohere": Provider(
            "https://api.cohere.ai/compatibility/v1",
            "COHERE_API_KEY",
            documented="https://docs.cohere.com/docs/compatibility-api",
        ),
        "databricks": Provider(
            "{DATABRICKS_HOST}/serving-endpoints",
            "DATABRICKS_TOKEN",
            documented="https://docs.databricks.com/machine-learning/model-serving/"
            "score-foundation-models",
        ),
        "deepseek": Provider(
            "https://api.deepseek.com/v1",
            "DEEPSEEK_API_KEY",
            documented="https://api-docs.deepseek.com",
        ),
        "gemini": Provider(
            "https://generativelanguage.googleapis.com/v1beta/openai",
            "GEMINI_API_KEY",
            documented="https://ai.google.dev/gemini-api/docs/openai",
        ),
        "groq": Provider(
            "https://api.groq.com/openai/v1",
            "GROQ_API_KEY",
            documented="https://console.groq.com/docs/openai",
        ),
        "hf": Provider(kind="folder", free=True),
        "llamacpp": Provider(
            "http://localhost:8080/v1",
            free=True,
            documented="https://github.com/ggml-org/llama.cpp/tree/master/tools/server",
        ),
        "lmstudio": Provider(
            "http://localhost:1234/v1",
            free=True,
            documented="https://lmstudio.ai/docs/app/api/endpoints/openai",
        ),
        "mistral": Provider(
            "https://api.mistral.ai/v1", "MISTRAL_API_KEY", documented="https://docs.mistral.ai/api"
        ),
        "ollama": Provider(
            "http://localhost:11434/v1", free=True, documented="https://docs.ollama.com/openai"
        ),
        "onnx": Provider(kind="folder", free=True),
        "openai": Provider(
            "https://api.openai.com/v1",
            "OPENAI_API_KEY",
            documented="https://platform.openai.com/docs/api-reference",
        ),
        "openrouter": Provider(
            "https://openrouter.ai/api/v1",
            "OPENROUTER_API_KEY",
            documented="https://openrouter.ai/docs/quickstart",
        ),
        "st": Provider(kind="folder", free=True),
        "static": Provider(kind="folder", free=True),
        "together": Provider(
            "https://api.together.xyz/v1",
            "TOGETHER_API_KEY",
            documented="https://docs.together.ai/docs/openai-api-compatibility",
        ),
        "vllm": Provider(
            "http://localhost:8000/v1",
            free=True,
            documented="https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html",
        ),
    }
)
"""Providers known without any settings.

Addresses and keys are those that the providers document; no test of ours calls them.
"""


@dataclass(frozen=True, slots=True)
class ModelTarget:
    """The location of a model, with all its settings.

    Attributes:
        text: The name as configured.
        provider: The part before the colon; empty for an address.
        name: The model's name at the server, or the folder.
        base: Base address, without a slash at the end; empty for local models.
        key_env: Variable that holds the key, empty where none is needed.
        free: Calls cost nothing.
        limits: How long the server may be silent.
    """

    text: str
    provider: str
    name: str
    kind: Literal["server", "folder", "object"]
    settings: ModelSettings
    base: str = ""
    key_env: str = ""
    free: bool = False
    limits: TimeLimits = TimeLimits()

    def key(self) -> str:
        """The key from the environment, empty where the server needs none.

        Raises:
            MissingKeyError: The variable is not set.
        """
        if not self.key_env:
            return ""
        key = os.environ.get(self.key_env, "").strip()
        if not key and not is_on_this_machine(self.base):
            raise MissingKeyError(
                f"{self.text} needs a key, and {self.key_env} is not set",
                where=self.base,
                hint=f"export {self.key_env}=…  (keys are read from the environment only)",
            )
        if not key.isascii() or not key.isprintable():
            raise MissingKeyError(
                f"{self.key_env} does not hold a key: it has characters that a header cannot "
                "contain",
                hint=f"set {self.key_env} again; quotes or line ends may have crept in",
            )
        return key


def is_on_this_machine(base: str) -> bool:
    """True if an address is this machine's."""
    host = urlsplit(base).hostname or ""
    return host in {"localhost", "::1"} or host.startswith("127.")


def list_providers(settings: Mapping[str, ModelSettings]) -> list[str]:
    """Providers that a name may start with, sorted: the known ones, and those of the settings."""
    own = (name for name, entry in settings.items() if ":" not in name and entry.base)
    return sorted({*PROVIDERS, *own})


def find_model(
    text: str, entries: Mapping[str, ModelSettings], limits: TimeLimits = TimeLimits()
) -> ModelTarget:
    """The target of a name.

    Args:
        text: The name.
        entries: Settings by model or provider.
        limits: How long servers may be silent.

    Raises:
        ConfigError: The text is not a model name, its provider is unknown (the error suggests the
            nearest), or its address holds a password or names a variable that is not set.
    """
    provider_name, name, address = _split_name(text)
    entry = entries.get(text, ModelSettings())
    group = entries.get(provider_name, ModelSettings())
    params = {**group.params, **entry.params}
    settings = replace(group, **{**list_changed_options(entry), "params": params})
    if settings.backend:
        return ModelTarget(
            text, provider_name, name, "object", settings, free=settings.price_in is None
        )
    provider = PROVIDERS.get(provider_name, Provider())
    own_base = entry.base or address or group.base
    base = _filled_address(own_base or provider.base, text).rstrip("/")
    if base:
        _check_address(base, text if provider_name else "a model's name")
    elif provider.kind == "server":
        known = list_providers(entries)
        choices = suggest_name(provider_name, known)
        raise ConfigError(
            f"unknown provider {provider_name!r} in {text!r}",
            hint=f"{choices} (or give it a base address: models: {{{provider_name}: "
            "{base: https://…/v1}})",
        )
    # A provider's key must only be sent to the provider's own address.
    key_env = settings.key_env or ("" if own_base else provider.key_env)
    unpriced = settings.price_in is None and settings.price_out is None
    no_server = provider.kind != "server" or (provider.free and not own_base)
    return ModelTarget(
        text,
        provider_name,
        name,
        provider.kind,
        settings,
        base,
        key_env,
        unpriced and (no_server or is_on_this_machine(base)),
        limits,
    )


_MAKERS = (
    ("openai", ("gpt-", "chatgpt-", "o1", "o3", "o4", "text-embedding-")),
    ("anthropic", ("claude-",)),
    ("gemini", ("gemini-",)),
    ("mistral", ("mistral-", "ministral-", "magistral-", "codestral-", "open-mi")),
    ("cohere", ("command-", "embed-", "rerank-", "c4ai-")),
    ("deepseek", ("deepseek-",)),
    ("ollama", ("llama", "qwen", "phi", "gemma", "nomic-embed")),
)
"""Provider -> how the names of its models begin, for a name written without its provider."""


def _with_provider(text: str) -> str:
    """The name to write in place of one that lacks its provider."""
    near = next((name for name, beginnings in _MAKERS if text.lower().startswith(beginnings)), "")
    return (
        f"did you mean {near}:{text}? A model is written provider:name"
        if near
        else "write provider:name, for example openai:gpt-4.1-mini or onnx:FOLDER"
    )


def _split_name(text: str) -> tuple[str, str, str]:
    """Provider, name and address in a model's name; an address has no provider."""
    if text.startswith(("http://", "https://")):
        address, _, name = text.partition("#")
        if not name:
            raise ConfigError(
                "a model address needs a model name", hint="write http://host:port/v1#model"
            )
        return "", name, address
    provider, _, name = text.partition(":")
    if not provider or not name:
        raise ConfigError(f"{text!r} is not a model name", hint=_with_provider(text))
    return provider, name, ""


def _check_address(base: str, where: str) -> None:
    """Refuse an invalid base address, or one with a password."""
    try:
        parts = urlsplit(base)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, good = urlsplit(""), False
    if parts.password:
        raise ConfigError(
            "a base address must not hold a password",
            where=where,
            hint="name an environment variable: key_env under models:",
        )
    if not good:
        raise ConfigError(
            f"{base!r} is not a base address", where=where, hint="write http://host:port/v1"
        )


def _filled_address(base: str, text: str) -> str:
    """The address with its environment variable replaced (a workspace, a resource, a region)."""
    variable = base.partition("{")[2].partition("}")[0]
    value = os.environ.get(variable, "").strip().rstrip("/")
    if variable and not value:
        raise ConfigError(
            f"{text} needs the address of its server, and {variable} is not set",
            hint=f"export {variable}=" + ("https://…" if base.startswith("{") else "…"),
        )
    if base.startswith("{") and "://" not in value:
        value = f"https://{value}"
    return base.replace("{" + variable + "}", value)
