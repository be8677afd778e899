"""Training pairs: questions from testsets or documents, passages, hard negatives."""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..core import Chunk, ConfigError, GoldSpan, Row, Span, TestsetError, case_folded, text_hash
from ..flow import embed, gather
from ..index import View, write_embedded_text
from ..project import Project, project_glossary
from ..testsets import (
    Split,
    SynthesisOptions,
    Testset,
    gold_chunks,
    gold_documents,
    project_testset,
    refresh_gold,
    split_clusters,
    synthesize,
    write_rows,
)
from ._trainer import Report, TrainingOptions

_WITHOUT_TESTSET = ("headings", "cloze", "glossary")


Negatives: TypeAlias = Literal["hard", "random", "none"]
"""Source of passages that do not answer: the index, by the present model; at random; none."""


_MARGIN = 0.1
"""A hit whose similarity is higher than that of the gold by more than this may answer too."""


@dataclass(frozen=True, slots=True)
class ModelTuneOptions:
    """Options of training a model.

    Attributes:
        sources: Sources of training questions, of ``testset``, ``headings``, ``cloze`` and
            ``glossary``; by default the testset, and without one all the others.
        most: Most questions made from each source other than the testset.
        also: Further testsets to compare on; they do not decide.
        output: Folder to write, relative to the project folder; empty names one in ``models/``.
        measure: Ranking measure that decides on the held-out questions.
        negatives: Source of passages that do not answer: the index, a random one, or none.
        training: Options of the training.
        resume: Continue an interrupted training of the same pairs and settings.
        on_step: Called after each step with the number of finished steps and of all steps.
        keep: Write the model even if it is not proven better, and mark it as unproven.
        cluster: What dependent held-out questions have in common.
        base: Model to start from; empty for the present one. An embedding model is always trained
            from ``embed.model``.
        from_corpus: Train on questions made from the documents only; all questions of the testset
            decide.
    """

    sources: tuple[str, ...] = ()
    most: int = 500
    also: tuple[str, ...] = ()
    output: str = ""
    measure: str = "MRR@10"
    negatives: Negatives = "hard"
    training: TrainingOptions = field(default_factory=TrainingOptions)
    resume: bool = False
    on_step: Report | None = None
    keep: bool = False
    cluster: str = ""
    base: str = ""
    from_corpus: bool = False


@dataclass(frozen=True, slots=True)
class Questions:
    """Questions for training, and the address of the deciding ones.

    Attributes:
        rows: Training questions; those from other sources have ``source`` in their metadata.
        held_out: Address of the testset that decides.
        notes: Remarks for the reader.
        split: Split of the testset that decides.
        of_people: False if the deciding questions were made from the documents too.
    """

    rows: tuple[Row, ...]
    held_out: str
    notes: tuple[str, ...]
    split: Split = "confirm"
    of_people: bool = True


def standalone_questions(rows: Testset) -> tuple[Testset, tuple[str, ...]]:
    """Return the rows without earlier turns, and a note where some have them.

    Training learns from the words of the question, which do not say what a follow-up asks for.
    """
    kept = tuple(row for row in rows.rows if not row.history)
    left_out = len(rows.rows) - len(kept)
    note = f"{left_out} of {len(rows.rows)} training questions have earlier turns: left out"
    return replace(rows, rows=kept), (note,) if left_out else ()


@contextmanager
def training_questions(
    project: Project, testset: str, options: ModelTuneOptions
) -> Iterator[Questions]:
    """Yield questions of the sources, without those made from documents of the deciding split.

    Without a testset, the generated questions are split into tune and confirm by document, and a
    file holds them until the block ends.

    Raises:
        ConfigError: The testset is a source, and there is none, or it may only decide.
        RetrieveError: Nothing has been ingested.
        TestsetError: The testset cannot be read, or a split is empty.
    """
    trains = bool(testset) and not options.from_corpus
    names = options.sources or (("testset",) if trains else _WITHOUT_TESTSET)
    if "testset" in names and not trains:
        problem = "--from-corpus trains on questions made from the documents alone"
        raise ConfigError(
            problem if options.from_corpus else "no testset is given",
            where="--from",
            hint="remove testset from --from, or --from-corpus"
            if options.from_corpus
            else "add --testset FILE",
        )
    if testset:
        yield _questions_with_testset(project, testset, options, names)
        return
    generated = _questions_from_documents(project, options, names)
    with tempfile.TemporaryDirectory() as folder:
        address = str(Path(folder) / "generated-questions.jsonl")
        write_rows(generated, address)
        tune = project_testset(project.folder, address, "tune", purpose="tune")
        note = (
            "not confirmed on questions of people: held-out questions were made from the documents "
            "too, and questions of people may come out differently; --from-corpus --testset FILE "
            "confirms it on a few real ones"
        )
        yield Questions(tune.rows, address, (note,), of_people=False)


def _questions_from_documents(
    project: Project, options: ModelTuneOptions, names: Sequence[str]
) -> list[Row]:
    """Return questions made from the documents.

    Raises:
        TestsetError: There are none.
    """
    generated = generate_rows(project, names, options.most, options.training.seed)
    if not generated:
        raise TestsetError(
            f"no question could be made from the documents ({', '.join(names)})",
            hint="add --from cloze, or --testset FILE",
        )
    return generated


def _questions_with_testset(
    project: Project, testset: str, options: ModelTuneOptions, names: Sequence[str]
) -> Questions:
    split: Split = "all" if options.from_corpus else "confirm"
    # An empty deciding split is refused before training, not after it.
    project_testset(project.folder, testset, split, purpose="tune", dry_run=True)
    rows: list[Row] = []
    notes: tuple[str, ...] = ()
    if options.from_corpus:
        generated = _questions_from_documents(project, options, names)
    else:
        tune = project_testset(project.folder, testset, "tune", purpose="tune")
        tune, notes = standalone_questions(tune)
        rows = list(refresh_gold(project.store, tune).rows) if "testset" in names else []
        generated = generate_rows(project, names, options.most, options.training.seed)
    if not generated:
        return Questions(tuple(rows), testset, notes)
    allowed = _drop_held_out(project, testset, split, generated)
    note = (
        f"{len(generated) - len(allowed)} of {len(generated)} questions made from documents were "
        "left out: their documents answer held-out questions"
    )
    return Questions((*rows, *allowed), testset, (*notes, note), split)


def make_other_questions(project: Project, questions: Questions, most: int, seed: int) -> list[Row]:
    """Return questions made from the documents by rules that gave no training question.

    Questions of documents that answer held-out questions are left out.
    """
    used = {row.metadata.get("source") for row in questions.rows}
    kinds = [name for name in KINDS if name not in used]
    generated = generate_rows(project, kinds, most, seed)
    if not generated:
        return []
    return _drop_held_out(project, questions.held_out, questions.split, generated)


def _drop_held_out(
    project: Project, testset: str, split: Split, generated: Sequence[Row]
) -> list[Row]:
    # Only their documents are looked at; nothing is measured on them here.
    deciding = project_testset(project.folder, testset, split, purpose="tune", dry_run=True)
    held_out_documents = {name for row in deciding.rows for name in gold_documents(row)}
    return [row for row in generated if held_out_documents.isdisjoint(gold_documents(row))]


KINDS = {"headings": "heading", "cloze": "cloze"}
"""Sources of questions that ``synth`` makes offline, with their kind in ``synth``."""

SOURCES = ("testset", *KINDS, "glossary")
"""Possible sources of training questions."""

_FORMS = ("{}", "What does {} mean?")
"""Questions about a code. The bare code is a question in every language."""


def name_sources(text: str) -> tuple[str, ...]:
    """Return the sources in a list with commas, each once.

    Raises:
        ConfigError: A name is unknown.
    """
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        if name not in SOURCES:
            raise ConfigError(
                f"unknown source {name!r}", where="--from", hint=f"one of {', '.join(SOURCES)}"
            )
    return names


def generate_rows(project: Project, sources: Sequence[str], most: int, seed: int) -> list[Row]:
    """Make questions with gold spans offline; ``source`` in their metadata names their source.

    Args:
        project: The project, with an index.
        sources: Names of :data:`SOURCES`; ``testset`` is skipped.
        most: Most questions from each.
        seed: Seed of the choice.

    Raises:
        RetrieveError: Nothing has been ingested.
    """
    all_rows: list[Row] = []
    for source in sources:
        rows: Sequence[Row] = ()
        if source == "glossary":
            rows = _code_questions(project, most)
        elif source != "testset":
            options = SynthesisOptions(questions=most, kinds=(KINDS[source],), seed=seed)
            try:
                rows = synthesize(project, options)[0].rows
            except TestsetError:  # the documents yield none: the count of pairs shows it
                continue
        all_rows += [
            replace(row, id=f"{source}-{row.id}", metadata={"source": source}) for row in rows
        ]
    return all_rows


def _code_questions(project: Project, most: int) -> list[Row]:
    """Make a question for each code of the glossary and for each document that defines it."""
    setting = project.settings.retrieve.glossary or "corpus"
    root, cache = project.folder.parts, project.folder.cache
    glossary = project_glossary(setting, root, cache, project.store, project.index_spec)
    defined = [
        (term, meaning)
        for term, meanings in glossary.entries.items()
        for meaning in meanings
        if meaning.document_id
    ]
    defined.sort(key=lambda entry: text_hash(f"{entry[0]}\x00{entry[1].document_id}"))
    rows = []
    for term, meaning in defined[: math.ceil(most / len(_FORMS))]:
        gold = GoldSpan(meaning.document_id, meaning.start, meaning.end)
        for form in _FORMS:
            question = form.format(term)
            name = text_hash(f"{question}\x00{meaning.document_id}")[:16]
            rows.append(Row(id=name, user_input=question, reference_spans=(gold,)))
    return rows[:most]


LEAST_PAIRS = 20
_LEAST_UNSEEN, _MOST_UNSEEN = 5, 200
_UNSEEN = 0.15
"""Share of the pairs that are held back from training, to decide when to stop."""
_DEPTH = 50
_POOL = 400
"""Most passages that unseen questions search."""
_NEAR = 5
"""Number of best passages of an unseen question in this pool."""
_BLOCK = 64
_CHUNKS = 1_000_000
"""Most chunks from which random passages are drawn."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A training question and its passages, as the model reads them, without prefixes.

    Attributes:
        question: The question.
        positive: Text of the chunk that answers it.
        gold: Ids of all chunks that answer it.
        source: Its source, one of ``SOURCES``.
        cluster: Cluster of the pairs with a common gold document.
        negatives: Texts of chunks that do not answer it; empty if none are used.
        near: Ids of the chunks that are ranked first: by the present model, or by the search.
    """

    question: str
    positive: str
    gold: frozenset[str]
    source: str
    cluster: str
    negatives: tuple[str, ...] = ()
    near: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HeldBackQuestions:
    """Questions held back from training, and the passages that they search.

    Attributes:
        questions: The questions.
        gold: Ids of the passages that answer each.
        passages: Id -> text.
        hits: Ids of the passages that the search finds for each, in its order; empty where all
            passages are searched.
    """

    questions: tuple[str, ...] = ()
    gold: tuple[frozenset[str], ...] = ()
    passages: Mapping[str, str] = field(default_factory=dict)
    hits: tuple[tuple[str, ...], ...] = ()


def read_pairs(
    project: Project, rows: Sequence[Row], negatives: Negatives, seed: int
) -> list[Pair]:
    """Return pairs of the rows whose gold is in the index, equal ones once.

    Of several chunks that answer a question, the nearest one by the present model is used.

    Raises:
        TestsetError: Fewer than 20 pairs.
    """
    target = project.target()
    view = project.views.view(target.snapshot)
    gold_by_row = project.runner.run(gather(gold_chunks(row, target) for row in rows))
    with_gold = [(row, gold) for row, gold in zip(rows, gold_by_row, strict=True) if gold]
    clusters = split_clusters([row for row, _ in with_gold])
    questions = [row.user_input for row, _ in with_gold]
    blocks = [questions[at : at + _BLOCK] for at in range(0, len(questions), _BLOCK)]
    vectors = project.runner.run(gather(embed(target.model, block) for block in blocks))
    empty = np.zeros((0, target.dimensions), np.float32)
    queries: NDArray[np.float32] = np.concatenate([empty, *vectors])
    searcher = _PairFinder(view, negatives, seed)
    pairs: dict[tuple[str, str], Pair] = {}
    for (row, gold), query in zip(with_gold, queries, strict=True):
        pair = searcher.pair(row, gold, query, clusters[row.id])
        lacks_negative = negatives != "none" and not pair.negatives
        if not lacks_negative and case_folded(pair.question) != case_folded(pair.positive):
            pairs.setdefault((pair.question, pair.positive), pair)
    return enough(list(pairs.values()), len(rows), len(with_gold))


def enough(pairs: list[Pair], questions: int, with_gold: int) -> list[Pair]:
    """Return the pairs if there are at least 20.

    Raises:
        TestsetError: There are fewer.
    """
    if len(pairs) < LEAST_PAIRS:
        raise TestsetError(
            f"{len(pairs)} pairs of a question and its passage; training needs {LEAST_PAIRS}"
            f" ({questions} questions, {with_gold} of them with gold in the index)",
            hint="add questions to the testset, or pairs of other sources: "
            "--from testset,headings,glossary",
        )
    return pairs


class _PairFinder:
    """Finds the passages of pairs in a view of the index."""

    def __init__(self, view: View, kind: Negatives, seed: int) -> None:
        self._view = view
        self._kind = kind
        self._all_chunks = view.every(_CHUNKS)
        self._random = np.random.default_rng(seed)

    def pair(
        self, row: Row, gold: frozenset[str], query: NDArray[np.float32], cluster: str
    ) -> Pair:
        """Return the pair of a row; without a negative if every passage of the index answers."""
        keys = sorted(gold)
        vectors = self._view.vectors(keys)
        assert vectors is not None, "the index has an embedding model"
        scores = vectors @ query
        best = int(np.argmax(scores))
        texts = dict(zip(keys, passage_texts(self._view, keys), strict=True))
        (reply,) = self._view.dense(query[None], _DEPTH)
        near = tuple(key for key, _ in reply[:_NEAR])
        source = str(row.metadata.get("source") or "testset")
        highest = float(scores[best]) + _MARGIN
        confused = [key for key, score in reply if score <= highest]
        negatives = self._negatives(confused, texts)
        return Pair(row.user_input, texts[keys[best]], gold, source, cluster, negatives, near)

    def _negatives(self, confused: Sequence[str], gold: Mapping[str, str]) -> tuple[str, ...]:
        """Return the first of these passages, else a random one, that is not gold and differs from
        it.
        """
        if self._kind == "none":
            return ()
        answering = {case_folded(text) for text in gold.values()}
        random_keys = (
            self._all_chunks[int(index)]
            for index in self._random.integers(0, len(self._all_chunks), _DEPTH)
        )
        for key in chain(confused if self._kind == "hard" else (), random_keys):
            (text,) = passage_texts(self._view, [key])
            if key not in gold and case_folded(text) not in answering:
                return (text,)
        return ()


def passage_texts(view: View, keys: Sequence[str]) -> list[str]:
    """Return texts of chunks as they are embedded: with their heads."""
    return [
        write_embedded_text(
            Chunk(
                hit.chunk_id, hit.document_id, 0, Span(hit.start, hit.end), hit.text, head=hit.head
            ),
            hit.title,
        )
        for hit in view.lookup(keys)
    ]


def hold_back_unseen(pairs: Sequence[Pair]) -> tuple[list[Pair], list[Pair]]:
    """Split off questions on other documents, to decide when to stop training.

    About 15 % of the pairs, 5 to 200, are split off in whole clusters; with fewer than five
    clusters, in single pairs.

    Returns:
        The training pairs, and those that are split off.
    """
    sizes = Counter(pair.cluster for pair in pairs)
    single = len(sizes) < _LEAST_UNSEEN
    if single:
        sizes = Counter(pair.question for pair in pairs)
    wanted = min(_MOST_UNSEEN, max(_LEAST_UNSEEN, round(_UNSEEN * len(pairs))))
    unseen_names: set[str] = set()
    count = 0
    for name in sorted(sizes, key=lambda name: text_hash(f"unseen\x00{name}")):
        if count >= wanted:
            break
        if count + sizes[name] <= len(pairs) // 2:
            unseen_names.add(name)
            count += sizes[name]
    unseen = [p for p in pairs if (p.question if single else p.cluster) in unseen_names]
    training_pairs = [p for p in pairs if (p.question if single else p.cluster) not in unseen_names]
    return training_pairs, unseen


def make_unseen(project: Project, pairs: Sequence[Pair]) -> HeldBackQuestions:
    """Return the questions of pairs that are not trained on, and the passages that they search."""
    keys = dict.fromkeys(key for pair in pairs for key in sorted(pair.gold)[:_NEAR])
    # All gold first, then those that the present model confuses with it.
    for rank in range(_NEAR):
        for pair in pairs:
            if len(keys) < _POOL and rank < len(pair.near):
                keys[pair.near[rank]] = None
    names = sorted(keys)
    texts = passage_texts(project.views.view(project.target().snapshot), names)
    return HeldBackQuestions(
        tuple(pair.question for pair in pairs),
        tuple(pair.gold for pair in pairs),
        dict(zip(names, texts, strict=True)),
    )
