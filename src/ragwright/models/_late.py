"""Late-interaction models: one vector per token (ColBERT, PyLate, MultiVectorEncoder)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .. import models as room  # onnxruntime loads when it is used
from ..core import ConfigError, require
from ._embedding import Prefixes, Role, file_hash, plan_windows
from ._folder import is_late, local_engine, read_json
from ._hf_tokenizer import HFTokenizer
from ._late_form import TokenVectors, passage_form, placed_form, query_form
from ._onnx import onnx_file
from ._options import EmbedOptions
from ._rerank import without_load_report
from ._seams import Encoder
from ._st import folder_hash, open_quietly

_WHAT = {
    "SentenceTransformer": "an embedding model (one vector per text)",
    "SparseEncoder": "a learned sparse model",
    "CrossEncoder": "a cross-encoder",
}


@dataclass(frozen=True, slots=True)
class LateRule:
    """Everything besides weights and tokenizer that determines the vectors of a text's tokens.

    Attributes:
        prompts: Text put before queries and passages.
        lengths: Most tokens of a query and of a passage, prompt and special tokens included; None
            for no limit.
        mean: Scores are divided by the number of the query's tokens (MeanMaxSim).
    """

    prompts: Prefixes = Prefixes()
    lengths: dict[Role, int | None] = field(default_factory=dict)
    mean: bool = False


class LateEncoder(Encoder):
    """A late-interaction model: one vector per token.

    The score of a passage for a query is the sum, over the vectors of the query, of the greatest
    product with any vector of the passage (MaxSim); vectors should have length 1.
    """

    @abstractmethod
    def embed_tokens(self, text: str, role: Role) -> TokenVectors:
        """The vectors of one text's tokens, and where these are in the text."""

    def encode_batch(self, texts: Sequence[str], role: Role) -> Sequence[bytes]:
        """The vectors of each text: of passages as 8-bit numbers, of queries as float32."""
        form = query_form if role == "query" else passage_form
        return [form(self.embed_tokens(text, role)) for text in texts]


class LateModel(LateEncoder):
    """Base of models in folders; subclasses run the model on a text that fits its length.

    A longer text is cut into pieces of about equal length, and all their vectors count: nothing is
    left out. Texts are run one by one, so that a vector does not depend on other texts.
    """

    where: str
    dimensions: int
    rule: LateRule
    tokenizer: HFTokenizer

    @abstractmethod
    def piece(self, text: str, role: Role) -> TokenVectors:
        """The vectors of a text that fits and starts with the prompt; spans are those in it."""

    def embed_tokens(self, text: str, role: Role) -> TokenVectors:
        """The vectors of one text's tokens; spans are those of the text.

        Raises:
            ModelRefusedError: The prompt alone fills the length of the model.
        """
        text = text.encode("utf-8", "replace").decode("utf-8")
        prompt, length = self.rule.prompts.of(role), self.rule.lengths.get(role)
        room = None if length is None else length - self.tokenizer.specials
        planned = plan_windows([[text]], prompt, self.tokenizer, room, (self.where, "pool"))
        inner = [len(piece) - len(prompt) for piece in planned.pieces]
        start = 0 if len(inner) == 1 else len(text) - sum(inner)
        vectors, spans = [], []
        for piece, size in zip(planned.pieces, inner, strict=True):
            part = self.piece(piece, role)
            inside = part.spans[:, 1] > len(prompt)
            moved = np.maximum(part.spans - len(prompt), 0) + start
            vectors.append(part.vectors)
            spans.append(np.where(inside[:, None], moved, 0))
            start += size
        rows = np.concatenate(vectors).astype(np.float32)
        if self.rule.mean and role == "query":
            rows /= max(1, len(rows))
        return TokenVectors(
            np.ascontiguousarray(rows, np.float32), np.concatenate(spans).astype(np.int32)
        )


class PlacedTokens(Encoder):
    """A late-interaction model that gives its vectors with the places of their tokens."""

    def __init__(self, model: Encoder) -> None:
        if not isinstance(model, LateEncoder):
            raise ConfigError(f"{type(model).__name__} does not say which words it matches")
        self._model = model
        self.identity = f"{model.identity}:placed"

    def encode_batch(self, texts: Sequence[str], role: Role) -> Sequence[bytes]:
        """The vectors of each text as float32, with places."""
        return [placed_form(self._model.embed_tokens(text, role)) for text in texts]


def open_late(source: str, options: EmbedOptions) -> Encoder:
    """The late-interaction model of a folder: by onnxruntime if it holds no other weights.

    Raises:
        MissingExtraError: What it needs is not installed.
        ConfigError: No such folder, or a model of another kind.
    """
    home = Path(source).expanduser()
    return room.OnnxLate(home) if _only_onnx(home) else SentenceTransformersLate(home, options)


def late_identity(source: str) -> str:
    """The identity of the model of a folder, by its files; the model is not opened.

    Raises:
        ConfigError: No such folder, or a model of another kind.
    """
    home = Path(source).expanduser()
    check_late(home)
    network = file_hash(onnx_file(home))[:16] if _only_onnx(home) else "torch"
    return f"late:{network}:{folder_hash(home)}"


def _only_onnx(home: Path) -> bool:
    """True for a folder with an ONNX file and without weights of torch."""
    weights = [*home.rglob("*.safetensors"), *home.rglob("*.bin")]
    return local_engine(home) == "onnx" and not weights


class SentenceTransformersLate(LateModel):
    """A late-interaction model in a folder, by the class MultiVectorEncoder (torch).

    Args:
        folder: A folder as sentence-transformers, PyLate or ColBERT writes it.
        options: ``threads`` (of the whole process: torch has one setting).
        device: A torch device.

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        ConfigError: No such folder, or a model of another kind.
    """

    def __init__(
        self, folder: str | Path, options: EmbedOptions | None = None, device: str = "cpu"
    ) -> None:
        home = Path(folder).expanduser()
        check_late(home)
        self.where = str(folder)
        with without_load_report():
            self._model = open_quietly("MultiVectorEncoder", str(home), device)
        torch = require("torch", "torch", "an st: model")
        torch.set_num_threads((options or EmbedOptions()).threads)
        fast = getattr(self._model.tokenizer, "backend_tokenizer", None)
        if fast is None:
            raise ConfigError(
                "the model has no fast tokenizer", where=str(folder), hint="add its tokenizer.json"
            )
        self.tokenizer = HFTokenizer(fast)
        self.rule = _rule_of(self._model)
        self.identity = late_identity(str(home))
        self.dimensions = int(self._model.get_embedding_dimension())

    def piece(self, text: str, role: Role) -> TokenVectors:
        """The vectors of a text that starts with the prompt."""
        features = self._model.encode(
            [text],
            prompt="",
            task="query" if role == "query" else "document",
            output_value=None,
            show_progress_bar=False,
        )[0]
        counted = features["attention_mask"].cpu().numpy().astype(bool)
        every = features["token_embeddings"].float().cpu().numpy()
        read = features["input_ids"].cpu().tolist()
        ids, _, placed = self.tokenizer.placed(text)
        spans = np.zeros((len(every), 2), np.int32)
        # Pooling of tokens, which some models do, leaves no vector of a single word.
        if len(read) == len(every) and read[: len(ids)] == ids:
            spans[: len(ids)] = placed
        return TokenVectors(every[counted], spans[counted])


def _rule_of(model: Any) -> LateRule:
    """Prompts and lengths of an opened model."""
    layer, prompts = model[0], model.prompts or {}
    passage = next((prompts[n] for n in ("document", "passage", "corpus") if prompts.get(n)), "")
    window = getattr(model, "max_seq_length", None)
    window = int(window) if window and window < 1e9 else None
    return LateRule(
        Prefixes(prompts.get("query") or "", passage),
        lengths_of(layer.query_length, layer.document_length, layer.query_expansion, window),
        model.similarity_fn_name == "meanmaxsim",
    )


def lengths_of(
    query: int | None, passage: int | None, expansion: dict[str, Any] | None, window: int | None
) -> dict[Role, int | None]:
    """Most tokens by role, from the settings of a model's first layer.

    Args:
        query: Its ``query_length``.
        passage: Its ``document_length``.
        expansion: Its ``query_expansion``; one of fixed length is the length of every query.
        window: Most tokens of any text.
    """
    fixed = expansion is not None and expansion["strategy"] == "fixed"
    if expansion is not None and (fixed or query is not None):
        query = expansion["length"] if fixed else max(query or 0, expansion["length"])

    def least(length: int | None) -> int | None:
        return min((size for size in (length, window) if size is not None), default=None)

    return {"query": least(query), "passage": least(passage)}


def check_late(home: Path) -> None:
    """Refuse a folder of another kind of model, which would be given untrained layers.

    Raises:
        ConfigError: No such folder, or another kind of model.
    """
    if not home.is_dir():
        raise ConfigError(
            "no such model folder", where=str(home), hint="write st:FOLDER or hf:ORG/NAME"
        )
    if is_late(home):
        return
    kind = str(read_json(home / "config_sentence_transformers.json").get("model_type") or "")
    named = _WHAT.get(kind or "SentenceTransformer", f"a model of the kind {kind}")
    if not kind and not (home / "modules.json").is_file():
        named = "a model without late-interaction layers"
    raise ConfigError(
        f"not a late-interaction model: the folder holds {named}",
        where=str(home),
        hint="name a MultiVectorEncoder, PyLate or ColBERT model; embedding models belong under "
        "embed.model",
    )
