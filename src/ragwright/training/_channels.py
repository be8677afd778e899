"""`tune sparse` and `tune late`: train the model of a search channel, and write it if it wins."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ..core import ConfigError, require
from ..models import open_trainable_encoder
from ..project import at_work
from ._losses import late_loss, sparse_loss
from ._pairs import Mining, Pair, Unseen, as_unseen
from ._searched import searched_pairs
from ._teach import ModelTuning, Teacher, teach
from ._trainer import Lesson, training_setup
from ._tuned import Tuned

if TYPE_CHECKING:
    from ..core import Row
    from ..project import Project

_CUTOFF = 10


@at_work("tune")
def tune_sparse(project: Project, testset: str = "", options: ModelTuning | None = None) -> Tuned:
    """Train the model of the learned sparse channel, and write it if it wins held-out questions.

    It starts from ``options.base``; by default from ``sparse.model``, else from the embedding
    model. A base with a masked language model becomes a SPLADE model, any other encoder a CSR
    model: its vectors with a layer that makes them sparse (Wen et al. 2025, arXiv:2503.01776). The
    search with the channel is compared with the present one.

    Args:
        project: The project, with or without the channel.
        testset: As for :func:`tune_reranker`.
        options: Sources and settings.

    Raises:
        ConfigError: There is no model to start from, it cannot be trained, or the search does not
            fuse channels.
        MissingExtraError: ``ragwright[train]`` is not installed.
        RetrieveError: Nothing has been ingested.
        TestsetError: Too few questions have gold in the index.
        TrainingError: The loss is not a number from the start.
        StoppedError: The budget or a key stopped it.
    """
    return teach(_SparseTeacher(project, options or ModelTuning()), testset)


@at_work("tune")
def tune_late(project: Project, testset: str = "", options: ModelTuning | None = None) -> Tuned:
    """Train the model of the late interaction channel, and write it if it wins held-out questions.

    It starts from ``options.base``; by default from ``late.model``, else from the embedding model,
    whose token vectors get a layer that shortens them to 128 numbers. The search with the channel
    is compared with the present one.

    Args:
        project: The project, with or without the channel.
        testset: As for :func:`tune_reranker`.
        options: Sources and settings.

    Raises:
        ConfigError: As for :func:`tune_sparse`, as the other errors.
    """
    return teach(_LateTeacher(project, options or ModelTuning()), testset)


class _ChannelTeacher(Teacher):
    """The common part of models that encode queries and passages for a channel."""

    kind: ClassVar[str]

    @property
    def base(self) -> str:
        """The base, as :func:`tune_sparse` chooses it."""
        present = self.project.settings.section(self.part).model
        return self.options.base or present or self.project.settings.embed.model

    def check(self) -> str:
        """Return the source of the weights; raises ConfigError as :func:`tune_sparse`."""
        settings, where = self.project.settings.retrieve, str(self.project.folder.file)
        if not self.base:
            raise ConfigError(
                "no model is set to start from",
                where=where,
                hint="add --base hf:ORG/NAME or --base st:FOLDER",
            )
        if settings.search in ("keyword", "dense"):
            raise ConfigError(
                f"retrieve.search is {settings.search}, which searches no channel {self.part}",
                where=where,
                hint="add --set retrieve.search=auto",
            )
        if isinstance(settings.channels, Mapping) and settings.channels:
            raise ConfigError(
                f"retrieve.channels is a mapping of plug-ins, and {self.part} is named in a list",
                where=where,
                hint=f"write a list, for example channels: [keyword, dense, {self.part}]",
            )
        if settings.ranker:
            raise ConfigError(
                f"retrieve.ranker is {settings.ranker}, made for the present search",
                where=where,
                hint="add --set retrieve.ranker= ; fit a new ranker afterwards",
            )
        return self.project.models.trainable(self.base)

    def open(self, source: str) -> Any:
        """Open the model, with a new last layer if the base has none."""
        return open_trainable_encoder(self.kind, source, self.options.training.seed)

    def pairs(self, rows: Sequence[Row], mining: Mining) -> list[Pair]:
        """Return pairs with the hits of the project's search."""
        return searched_pairs(self.project, rows, mining)

    def unseen(self, pairs: Sequence[Pair]) -> Unseen:
        """Return the questions, and the passages that they search."""
        return as_unseen(self.project, pairs)

    def lesson(self, model: Any, pairs: Sequence[Pair], unseen: Unseen) -> Lesson:
        """Return questions, passages and wrong passages; prompts are those of the model."""
        roles = {"anchor": "query", "positive": "document"}
        columns = {
            "anchor": [pair.question for pair in pairs],
            "positive": [pair.positive for pair in pairs],
        }
        if all(pair.negatives for pair in pairs):
            columns["negative"] = [pair.negatives[0] for pair in pairs]
            roles["negative"] = "document"
        prompts = {name: (model.prompts or {}).get(role) or "" for name, role in roles.items()}
        further: dict[str, Any] = {"prompts": prompts} if any(prompts.values()) else {}
        if type(model[0]).__name__ == "Router":
            further["router_mapping"] = roles
        loss = self.loss(model)
        return Lesson(
            model, self.kind, columns, loss, lambda m: self._mrr(m, unseen), further=further
        )

    @abstractmethod
    def loss(self, model: Any) -> Any:
        """Return the loss of sentence-transformers."""

    def mrr(self, model: Any, questions: Unseen) -> float:
        """Return MRR@10 of questions by the channel alone."""
        with training_setup(model, self.options.training):
            return self._mrr(model, questions)

    def _mrr(self, model: Any, questions: Unseen) -> float:
        torch = require("torch", "train", "training a model")
        options = {"batch_size": self.options.training.batch, "show_progress_bar": False}
        keys = list(questions.passages)
        if not (keys and questions.questions):
            return 0.0
        with torch.no_grad():
            queries = model.encode_query(list(questions.questions), **options)
            passages = model.encode_document(list(questions.passages.values()), **options)
            scores = model.similarity(queries, passages)
        first = scores.topk(min(_CUTOFF, len(keys)), dim=1).indices.tolist()
        total = 0.0
        for places, gold in zip(first, questions.gold, strict=True):
            rank = next((at for at, place in enumerate(places, 1) if keys[place] in gold), 0)
            total += 1 / rank if rank else 0.0
        return total / len(first)

    def settings(self, trial: Path) -> list[str]:
        """Return the model, and the channels with this one among them."""
        return [*super().settings(trial), f"retrieve.channels=[{', '.join(self._channels())}]"]

    def _channels(self) -> list[str]:
        settings = self.project.settings
        usual = ["keyword", *(["dense"] if settings.embed.model else [])]
        named = list(settings.retrieve.channels) or usual
        return named if self.part in named else [*named, self.part]

    def settle(self, model: Any, tuned: Tuned, kinds: Sequence[Unseen]) -> Tuned:
        """Add the note on the channels that the search has to name."""
        channels = self._channels()
        if list(self.project.settings.retrieve.channels) == channels:
            return tuned
        note = f"measured with retrieve.channels: [{', '.join(channels)}]; write it too"
        return replace(tuned, notes=(*tuned.notes, note))

    def withdraw(self, variant: Project) -> None:
        """Delete what the refused model has encoded."""
        name = variant.settings.section(self.part).model
        self.project.store.forget_encodings(
            variant.models.encoders.encoder(self.part, name).identity
        )


class _SparseTeacher(_ChannelTeacher):
    part = "sparse"
    setting = "sparse.model"
    measure = "MRR@10, sparse"
    title = "A learned sparse model trained on a project's own questions"
    kind = "SparseEncoder"

    provider = "st"

    def loss(self, model: Any) -> Any:
        """Return SPLADE's loss, or CSR's."""
        return sparse_loss(model)

    def export(self, trial: Path) -> tuple[str, ...]:
        """None: an ONNX file is written to a folder of its own, and CSR models have none."""
        return ()


class _LateTeacher(_ChannelTeacher):
    part = "late"
    setting = "late.model"
    measure = "MRR@10, late"
    title = "A late interaction model trained on a project's own questions"
    kind = "MultiVectorEncoder"

    def loss(self, model: Any) -> Any:
        """Return the ranking loss over MaxSim."""
        return late_loss(model)
