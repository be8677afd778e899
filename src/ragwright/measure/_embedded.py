"""Measures by vectors: of whole texts with their null baselines, and token by token."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..core import ConfigError, MeasureError, Row, Score, count_noun, require
from ..flow import Flow, embed, gather, rerank
from ..models import Reranker, folder_hash, no_progress_bars, transformer_folder
from ._measure import Measure, parse_measure
from ._rubric import MeasureSetup
from ._statistics import Summary, aggregate
from ._text import references_of

Matrix: TypeAlias = NDArray[np.float64]
_BATCH = 256
_MOST = 1000
"""Most rows for null baselines: more would add cost, but no information."""


def read_chunk_score(row: Row) -> float | None:
    """The mean similarity of the retrieved passages stored with a row, if any."""
    stored = row.metadata.get("chunk_score")
    return (
        float(stored) if isinstance(stored, int | float) and not isinstance(stored, bool) else None
    )


def chunk_score(row: Row, measure: Measure, setup: MeasureSetup) -> Flow[Score]:
    """Mean cosine of the question to the retrieved passages, -1 to 1."""
    stored = read_chunk_score(row)
    if stored is not None:
        return Score(str(measure), "scored", stored)
    (question,) = unit_rows((yield from embed(setup.embedder, [row.user_input], "query")))
    passages = unit_rows((yield from embed(setup.embedder, row.retrieved_contexts, "passage")))
    return Score(str(measure), "scored", float((passages @ question).mean()))


def qa_distance(row: Row, measure: Measure, setup: MeasureSetup) -> Flow[Score]:
    """1 - cosine of question and response, 0 to 2."""
    (question,) = unit_rows((yield from embed(setup.embedder, [row.user_input], "query")))
    (response,) = unit_rows((yield from embed(setup.embedder, [row.response_text], "passage")))
    return Score(str(measure), "scored", float(1 - question @ response))


def token_similarity(row: Row, measure: Measure, setup: MeasureSetup) -> Flow[Score]:
    """BERTScore or MoverScore of the response; for several references the best counts."""
    part = f"#{measure.parameter}" if measure.parameter else ""
    model = f"{measure.name.lower()}:{setup.token_model}{part}"
    similarities: list[float] = []
    for reference in references_of(row):
        similarities += (yield from rerank(model, reference, [row.response_text])).scores
    return Score(str(measure), "scored", max(similarities))


def _no_vectors() -> Matrix:
    return np.zeros((0, 0))


@dataclass(frozen=True, slots=True)
class QADistances:
    """Distances of questions to answers and their null baselines; lists by row.

    Attributes:
        row_ids: Rows with a question and a response, in order.
        distances: 1 - cosine of each question and its response.
        shuffled: The same with the response of another row.
        echoed: The same with the question itself, embedded as a response would be.
        chunk: The same with a random passage retrieved for another row; empty if no other row has
            any.
        ranks: Rank, from 1, of a question's own response among the responses of all rows;
            equal distances share the better rank.
        questions: Unit vector of each question, a row each; likewise ``answers``.
    """

    row_ids: tuple[str, ...]
    distances: tuple[float, ...]
    shuffled: tuple[float, ...]
    echoed: tuple[float, ...]
    chunk: tuple[float, ...]
    ranks: tuple[int, ...]
    questions: Matrix = field(default_factory=_no_vectors, repr=False, compare=False)
    answers: Matrix = field(default_factory=_no_vectors, repr=False, compare=False)

    def scores(self) -> dict[str, tuple[Score, ...]]:
        """Scores by name, ``QADistance`` and its baselines, ready to be aggregated."""
        lists: dict[str, Sequence[float]] = {
            "QADistance": self.distances,
            "QADistance, answers shuffled": self.shuffled,
            "QADistance, question echoed": self.echoed,
            "QADistance, random chunk": self.chunk,
            f"rank of the own answer of {len(self.ranks)}": self.ranks,
        }
        return {
            name: tuple(Score(name, "scored", float(value)) for value in values)
            for name, values in lists.items()
            if values
        }

    def baselines(self, seed: int = 0) -> tuple[Summary, ...]:
        """Summaries of :meth:`scores` without ``QADistance`` itself, for comparison."""
        scale = parse_measure("QADistance").known_scale
        return tuple(
            replace(aggregate(scores, seed), scale=None if name.startswith("rank") else scale)
            for name, scores in self.scores().items()
            if name != "QADistance"
        )


def qa_distances(
    rows: Sequence[Row], setup: MeasureSetup, seed: int = 0, *, most: int | None = _MOST
) -> Flow[QADistances]:
    """Distances of questions to their answers with the null baselines beside them.

    Args:
        rows: Those without a question or a response are left out.
        setup: ``embedder`` makes all vectors.
        seed: Seed of the choice of other answers and chunks.
        most: Of more rows than this, so many are drawn; None for all.

    Raises:
        MeasureError: No embedder is set, or fewer than two rows can be compared.
    """
    if not setup.embedder:
        raise MeasureError("QADistance needs an embedding model", hint="set `embedder`")
    used = [row for row in rows if row.user_input.strip() and row.response_text]
    if len(used) < 2:
        raise MeasureError(
            f"{count_noun(len(used), 'row has', 'rows have')} a question and a response; "
            "baselines need at least two",
            hint="score single rows by the measure QADistance",
        )
    draw = np.random.default_rng(seed)
    if most is not None and len(used) > most:
        used = [used[at] for at in np.sort(draw.choice(len(used), most, replace=False))]
    questions = [row.user_input for row in used]
    answers, chunks = [row.response_text for row in used], _other_chunks(used, draw)
    vectors = yield from _unit_vectors(setup.embedder, questions, "query")
    echoes, own, others = yield from gather(
        [_unit_vectors(setup.embedder, texts, "passage") for texts in (questions, answers, chunks)]
    )
    # A random cycle: every answer goes to another question.
    order = draw.permutation(len(own))
    shuffled = np.empty_like(order)
    shuffled[order] = np.roll(order, 1)
    return QADistances(
        row_ids=tuple(row.id for row in used),
        distances=_cosine_distances(vectors, own),
        shuffled=_cosine_distances(vectors, own[shuffled]),
        echoed=_cosine_distances(vectors, echoes),
        chunk=_cosine_distances(vectors, others) if chunks else (),
        ranks=_rank_own_answers(vectors, own),
        questions=vectors,
        answers=own,
    )


def _cosine_distances(first: Matrix, second: Matrix) -> tuple[float, ...]:
    return tuple(np.round(1 - (first * second).sum(axis=1), 6).tolist())


def _rank_own_answers(questions: Matrix, answers: Matrix) -> tuple[int, ...]:
    """Rank of each row's own response among all, one block of rows in memory at a time."""
    ranks: list[int] = []
    for at in range(0, len(questions), _BATCH):
        near = np.round(1 - questions[at : at + _BATCH] @ answers.T, 6)
        distances = near[np.arange(len(near)), np.arange(at, at + len(near))]
        ranks += (1 + (near < distances[:, None]).sum(axis=1)).tolist()
    return tuple(ranks)


def _other_chunks(rows: Sequence[Row], draw: np.random.Generator) -> list[str]:
    """For every row a passage retrieved only for other rows; none if one is missing."""
    pool = list(dict.fromkeys(text for row in rows for text in row.retrieved_contexts))
    drawn = []
    for row in rows:
        own_texts = frozenset(row.retrieved_contexts)
        if len(own_texts) == len(pool):
            return []
        text = None
        while text is None or text in own_texts:
            text = pool[int(draw.integers(len(pool)))]
        drawn.append(text)
    return drawn


def _unit_vectors(model: str, texts: Sequence[str], role: str) -> Flow[Matrix]:
    """Unit vectors of many texts: passages in blocks, queries as the measure requests them.

    Replies to queries are stored, so those of the measure itself are reused here.
    """
    block = 1 if role == "query" else _BATCH
    flows = [
        embed(model, texts[at : at + block], "query" if role == "query" else "passage")
        for at in range(0, len(texts), block)
    ]
    parts = yield from gather(flows)
    return unit_rows(np.concatenate(parts)) if parts else np.zeros((0, 0))


def unit_rows(vectors: NDArray[np.float32]) -> Matrix:
    """The vectors at length 1.

    Raises:
        MeasureError: One has the length 0.
    """
    rows = np.asarray(vectors, np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if not (lengths > 0).all():
        raise MeasureError(
            "a text has a vector of length 0: its direction is undefined",
            hint="check the embedding model with `ragwright doctor`",
        )
    return np.asarray(rows / lengths)


Tokens = tuple[Matrix, NDArray[np.bool_]]
_PARTS = ("F1", "precision", "recall")
_WHAT = "BERTScore and MoverScore"
_KEPT_TEXTS = 32
"""Texts whose vectors are cached: several measures use the same ones."""


class TokenModel:
    """Vectors of the tokens of texts, by the last layer of a transformer in a folder.

    Nothing is downloaded or cut: a text longer than the model's window is read in several windows,
    each between the model's own special tokens.

    Raises:
        MissingExtraError: transformers and torch are not installed.
        ConfigError: The folder does not hold a transformer, or one that cannot be opened.
    """

    def __init__(self, folder: str) -> None:
        home = transformer_folder(Path(folder.removeprefix("st:")).expanduser(), _WHAT)
        transformers = require("transformers", "torch", _WHAT)
        self._torch = require("torch", "torch", _WHAT)
        try:
            with no_progress_bars(_WHAT):
                self.tokenizer = transformers.AutoTokenizer.from_pretrained(
                    str(home), local_files_only=True
                )
                self.model = transformers.AutoModel.from_pretrained(
                    str(home), local_files_only=True
                )
        except (OSError, ValueError, KeyError) as error:
            raise ConfigError(
                f"the transformer cannot be opened: {error}",
                where=str(home),
                hint="the folder needs config.json, a tokenizer and PyTorch weights "
                "(model.safetensors)",
            ) from error
        self.model.eval()
        limits = [self.tokenizer.model_max_length]
        limits.append(getattr(self.model.config, "max_position_embeddings", limits[0]))
        self.window = int(min(limits))
        self.identity = folder_hash(home)
        self._lock = threading.Lock()
        self._cached = lru_cache(_KEPT_TEXTS)(self._token_vectors)

    def vectors(self, text: str) -> Tokens:
        """Unit vectors of all tokens, shape (tokens, dimensions), and a mask of the text's own.

        The others are special tokens: they may be matched, but are not counted.
        """
        with self._lock:
            return self._cached(text)

    def _token_vectors(self, text: str) -> Tokens:
        encoded = self.tokenizer(
            text.strip(),
            truncation=True,
            max_length=self.window,
            return_overflowing_tokens=True,
            return_special_tokens_mask=True,
        )
        parts, masks = [], []
        names = [name for name in self.tokenizer.model_input_names if name in encoded]
        for at, special in enumerate(encoded["special_tokens_mask"]):
            with self._torch.no_grad():
                inputs = {name: self._torch.tensor([encoded[name][at]]) for name in names}
                hidden = self.model(**inputs).last_hidden_state[0]
            parts.append(hidden.double().numpy())
            masks.append(np.array(special) == 0)
        rows = np.concatenate(parts)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True), np.concatenate(masks)


class BertScorer(Reranker):
    """BERTScore of each passage (a response) against a query (its reference).

    Args:
        source: ``FOLDER``, or ``FOLDER#precision`` or ``FOLDER#recall``.
    """

    def __init__(self, source: str) -> None:
        folder, _, part = source.partition("#")
        self.part = part or _PARTS[0]
        if self.part not in _PARTS:
            raise ConfigError(f"BERTScore has no {self.part!r}", hint=f"one of {', '.join(_PARTS)}")
        self.tokens = token_model(folder)
        self.identity = f"bertscore:{self.part}:{self.tokens.identity}"
        self.scale = f"BERTScore {self.part}, -1 to 1"

    def score(self, query: str, passages: Sequence[str]) -> Sequence[float]:
        """One score per passage; 0 if a text has no tokens."""
        reference = self.tokens.vectors(query)
        return [bert_score(self.tokens.vectors(text), reference, self.part) for text in passages]


class MoverScorer(Reranker):
    """MoverScore of each passage (a response) against a query (its reference)."""

    def __init__(self, source: str) -> None:
        self.tokens = token_model(source)
        self.identity = f"moverscore:{self.tokens.identity}"
        self.scale = "MoverScore, -1 to 1"

    def score(self, query: str, passages: Sequence[str]) -> Sequence[float]:
        """One score per passage; -1, the end of the scale, if a text has no tokens."""
        (reference, mask), *texts = (self.tokens.vectors(text) for text in (query, *passages))
        return [mover_score(vectors[own], reference[mask]) for vectors, own in texts]


def bert_score(response: Tokens, reference: Tokens, part: str = "F1") -> float:
    """Greedy matching by cosine (Zhang et al. 2020), special tokens matched but not counted."""
    (response_vectors, response_mask), (reference_vectors, reference_mask) = response, reference
    if not response_mask.any() or not reference_mask.any():
        return 0.0
    similar = np.clip(response_vectors @ reference_vectors.T, -1.0, 1.0)
    precision = float(similar.max(axis=1)[response_mask].mean())
    recall = float(similar.max(axis=0)[reference_mask].mean())
    if part == "precision":
        return precision
    if part == "recall":
        return recall
    total = precision + recall
    return 2 * precision * recall / total if total else 0.0


def mover_score(response: Matrix, reference: Matrix) -> float:
    """1 - the least mean Euclidean distance of moving all tokens of one text onto the other's.

    Args:
        response: Unit vectors, shape (tokens, dimensions); all tokens have equal weight.
        reference: Likewise.

    The exact transport takes about 0.1 s for 200 tokens against 200, 1 s for 500 against 500.
    """
    if not len(response) or not len(reference):
        return -1.0
    return 1.0 - transport(np.sqrt(np.maximum(2 - 2 * response @ reference.T, 0.0)))


def transport(cost: Matrix) -> float:
    """Least cost of moving equal weights of the rows to equal weights of the columns (exact).

    Raises:
        MissingExtraError: scipy is not installed.
    """
    optimize = require("scipy.optimize", "torch", "MoverScore")
    sparse = require("scipy.sparse", "torch", "MoverScore")
    rows, columns = cost.shape
    sums = sparse.vstack(
        [
            sparse.kron(sparse.eye(rows), np.ones((1, columns))),
            sparse.kron(np.ones((1, rows)), sparse.eye(columns)),
        ]
    ).tocsr()
    weights = np.concatenate([np.full(rows, 1 / rows), np.full(columns, 1 / columns)])
    # The last equation follows from the others; without it rounding cannot make them disagree.
    solution = optimize.linprog(
        cost.ravel(), A_eq=sums[:-1], b_eq=weights[:-1], bounds=(0, None), method="highs"
    )
    if not solution.success:
        raise ArithmeticError(f"no transport was found: {solution.message}")
    return float(solution.fun)


@lru_cache(maxsize=2)
def token_model(folder: str) -> TokenModel:
    """The token model in a folder, opened once."""
    return TokenModel(folder)
