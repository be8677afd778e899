"""Ours beside every peer on every collection: rankings, verdicts, times, and the page of them.

    python -m benchmarks.peers.install            # once: the peers' own environment
    python -m benchmarks.results                  # six collections; writes docs/results/
    python -m benchmarks.results scifact time     # some of them; prints, writes nothing
    python -m benchmarks.results --beir DIR/SPLIT # any BEIR folder; prints, writes nothing
    python -m benchmarks.results --render         # the page again from the stored figures

All systems get the same text (title and body) and the same MiniLM vectors; embedding is a look-up.
Ours runs through a runner on a stored project with the options a project has by default, lists
100 deep; peers run in processes of their own (:mod:`benchmarks.peers.search`), one thread each.
Their rankings are kept as TREC runs in the cache and made again when their input or script
changes; ours are always made anew, and so are all times. Every score is computed by our measures
and checked against ir-measures to four places.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, get_args

import numpy as np

from benchmarks import publish as pages
from benchmarks.paired import Difference, Verdict, paired
from benchmarks.peers.bare import bare_loop
from benchmarks.peers.install import REQUIREMENTS, peers_python
from benchmarks.peers.search import (
    PEERS,
    SHOWN,
    Given,
    by_channel,
    read,
    times,
    write_runs,
)
from benchmarks.publish import Cell, Section, Table, publish, versions
from benchmarks.retrieval import DEPTH, MEASURES, Channel, Corpus, load, opened, read_beir
from benchmarks.vectors import CACHE
from ragwright.core import text_hash
from ragwright.experiment import ranking_search, retrieval_row
from ragwright.flow import Runner
from ragwright.measure import retrieval_scores
from ragwright.retrieve import RetrieveOptions, retrieve
from ragwright.testsets import read_run

NAMES = ("scifact", "cranfield", "cisi", "cacm", "medline", "time")
CLOCKED = "scifact"
CHANNELS: tuple[Channel, ...] = ("keyword", "dense", "hybrid")
OURS = "ragwright"
TOGETHER = "all"
LABELS = {OURS: OURS, **{name: peer.label for name, peer in PEERS.items()}}
COMMAND = "python -m benchmarks.peers.install   # once\npython -m benchmarks.results"

Rankings = Mapping[str, Sequence[str]]
"""Query id -> document ids, best first."""

Verdicts = Mapping[tuple[str, str, str], Difference]
"""(measure, collection, channel) -> ours against the best peer."""

ALONE = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"), "1"
) | dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9")
"""Environment of every process that is compared: one thread, no network."""


@dataclass(frozen=True)
class Collection:
    """A corpus under the name of its cache folder; ids are fit for TREC's columns."""

    name: str
    corpus: Corpus

    @property
    def folder(self) -> Path:
        """Where its runs are kept."""
        return CACHE / "results" / self.name

    @property
    def qrels(self) -> dict[str, dict[str, int]]:
        """Query id -> document id -> grade."""
        rows = self.corpus.testset.rows
        return {
            column(row.id): {column(key): grade for key, grade in row.reference_ids.items()}
            for row in rows
        }


@dataclass(frozen=True)
class Scored:
    """Scores of one system in one channel: measure -> one value per scored query, in order."""

    values: Mapping[str, Sequence[float]]

    def mean(self, measure: str) -> float:
        """The mean over queries."""
        return statistics.fmean(self.values[measure])


@dataclass(frozen=True)
class Compared:
    """One channel of one collection: every system, and ours against the best of the others."""

    collection: str
    channel: Channel
    queries: int
    systems: Mapping[str, Scored]

    def best(self, measure: str) -> str:
        """The peer with the highest mean; the first of equal ones."""
        return max((s for s in self.systems if s != OURS), key=lambda s: self._mean(s, measure))

    def difference(self, measure: str, peer: str = "") -> Difference:
        """Ours minus a peer, the best one when none is named."""
        theirs = self.systems[peer or self.best(measure)].values[measure]
        return paired(self.systems[OURS].values[measure], theirs)

    def _mean(self, system: str, measure: str) -> float:
        return round(self.systems[system].mean(measure), 6)


def column(identity: str) -> str:
    """An id without what would part it into two columns."""
    return re.sub(r"[\s%]", lambda match: f"%{ord(match[0]):02x}", identity)


def collection(name: str, folder: Path) -> Collection:
    """One of the collections beside the checkout."""
    return Collection(name, load(name, folder, with_vectors=True))


def beir_collection(address: str) -> Collection:
    """A split of any BEIR folder; its vectors are made once and kept."""
    folder, _, split = address.rpartition("/")
    path = Path(folder).resolve()
    name = f"{path.name}-{split}-{text_hash(str(path))[:8]}"
    return Collection(name, read_beir(f"{path}/{split}", f"beir-{path.name}"))


def ours(corpus: Corpus) -> dict[Channel, Rankings]:
    """Our rankings by channel, through runner, store and view."""
    rankings: dict[Channel, Rankings] = {}
    with tempfile.TemporaryDirectory() as folder, opened(corpus, Path(folder)) as (routes, target):
        for channel in CHANNELS:
            options = RetrieveOptions(search=channel, pool=DEPTH)
            search = ranking_search(target, options, MEASURES)
            with Runner(routes) as runner:
                flows = (retrieval_row(row, search, MEASURES) for row in corpus.testset.rows)
                results = list(runner.map(flows))
            failed = [s.reason for r in results for s in r.scores if s.state == "errored"]
            if failed:
                raise SystemExit(f"{channel}: {len(failed)} scores failed: {failed[0]}")
            rankings[channel] = {
                column(r.row_id): [column(key) for key in dict.fromkeys(r.ranking)][:DEPTH]
                for r in results
            }
    return rankings


def write_input(given: Collection) -> str:
    """Write what the peers read; a hash of it, and of the scripts that read it, is returned."""
    corpus, folder = given.corpus, given.folder / "input"
    folder.mkdir(parents=True, exist_ok=True)
    ids = [column(d.document.id) for d in corpus.documents]
    asked = {column(row.id): row.user_input for row in corpus.testset.rows}
    texts = {
        "documents": _json_lines(zip(ids, corpus.given, strict=True)),
        "queries": _json_lines(asked.items()),
    }
    assert corpus.given_vectors is not None
    arrays = {
        "documents": corpus.given_vectors,
        "queries": np.stack([corpus.queries[text] for text in asked.values()]),
    }
    for name, text in texts.items():
        (folder / f"{name}.jsonl").write_text(text, "utf-8")
        np.save(folder / f"{name}.npy", arrays[name])
    # What makes rankings, not the whole file: a change of the clock leaves them as they are.
    builders = [peer.build for peer in PEERS.values()]
    parts: list[Callable[..., Any]] = [bare_loop, Given, read, by_channel, write_runs, *builders]
    scripts = [REQUIREMENTS.read_text("utf-8"), *(inspect.getsource(part) for part in parts)]
    vectors = [hashlib.sha256(array.tobytes()).hexdigest() for array in arrays.values()]
    return text_hash("\x00".join([*texts.values(), *scripts, *vectors]))


def peer_rankings(given: Collection, peer: str, state: str) -> dict[Channel, Rankings]:
    """A peer's rankings by channel: the kept ones where nothing changed, else made now."""
    out = given.folder / peer
    mark = out / "state.txt"
    if not mark.is_file() or mark.read_text() != state:
        print(f"  {given.name}: {LABELS[peer]} …", flush=True)
        ask_peer(peer, given.folder / "input", out)
        mark.write_text(state)
    wanted = given.qrels
    rankings: dict[Channel, Rankings] = {}
    for channel in CHANNELS:
        run = read_run(out / f"{channel}.run")
        rankings[channel] = {query: [key for key, _ in run.get(query, ())] for query in wanted}
    return rankings


def ask_peer(peer: str, folder: Path, out: Path, *more: str) -> None:
    """Run a peer in its environment and in a process of its own.

    Raises:
        ChildProcessError: It failed; with the end of what it said.
    """
    command = [
        str(peers_python()),
        "-m",
        "benchmarks.peers.search",
        peer,
        str(folder),
        str(out),
        *more,
    ]
    done = subprocess.run(
        command, cwd=pages.ROOT, env=os.environ | ALONE, capture_output=True, text=True
    )
    if done.returncode:
        raise ChildProcessError(f"{LABELS[peer]}: {done.stderr.strip()[-600:]}")


def score(rankings: Rankings, qrels: Mapping[str, Mapping[str, int]]) -> Scored:
    """Scores of the queries that have a relevant document, checked against ir-measures.

    Raises:
        SystemExit: A score differs from ir-measures' in the fourth place.
    """
    import ir_measures

    names = {
        ir_measures.nDCG @ 10: "nDCG@10",
        ir_measures.R @ 100: "Recall@100",
        ir_measures.RR @ 10: "MRR@10",
    }
    run = {
        query: {key: float(-rank) for rank, key in enumerate(ranking)}
        for query, ranking in rankings.items()
    }
    checked: dict[tuple[str, str], float] = {}
    for metric in ir_measures.iter_calc(list(names), qrels, run):
        checked[metric.query_id, names[metric.measure]] = metric.value
    values: dict[str, list[float]] = {str(measure): [] for measure in MEASURES}
    for query, grades in qrels.items():
        if not any(grade > 0 for grade in grades.values()):
            continue
        for measure in MEASURES:
            computed = retrieval_scores(measure, rankings.get(query, ()), grades)
            if computed.value is None:
                continue
            other = checked.get((query, str(measure)), 0.0)
            if abs(computed.value - other) >= 5e-5:
                raise SystemExit(
                    f"query {query}: {measure} is {computed.value}, ir-measures says {other}"
                )
            values[str(measure)].append(computed.value)
    return Scored(values)


def compared(given: Collection) -> tuple[list[Compared], list[str]]:
    """Every channel of a collection, and the peers that failed."""
    print(f"{given.name}: {len(given.corpus.documents)} documents", flush=True)
    state, failed = write_input(given), []
    by_system: dict[str, Mapping[Channel, Rankings]] = {OURS: ours(given.corpus)}
    _write_runs(given.folder / OURS, by_system[OURS])
    for peer in PEERS:
        try:
            by_system[peer] = peer_rankings(given, peer, state)
        except ChildProcessError as error:
            failed.append(f"{given.name}: {error}".replace("\n", " "))
            print(f"  failed: {failed[-1]}", flush=True)
    qrels = given.qrels
    cells = []
    for channel in CHANNELS:
        systems = {name: score(kinds[channel], qrels) for name, kinds in by_system.items()}
        queries = len(systems[OURS].values[str(MEASURES[0])])
        cells.append(Compared(given.name, channel, queries, systems))
    return cells, failed


def quality_section(cells: Sequence[Compared], failed: Sequence[str]) -> Section:
    """Tables of every measure, and how the verdicts fall."""
    measures = [str(measure) for measure in MEASURES]
    verdicts: Verdicts = {
        (m, c.collection, c.channel): c.difference(m) for m in measures for c in cells
    }
    together = pooled(cells) if len({c.collection for c in cells}) > 1 else []
    short: list[pages.Row] = []
    for measure in measures:
        for channel in CHANNELS:
            counted = Counter(
                verdicts[measure, c.collection, channel].verdict
                for c in cells
                if c.channel == channel
            )
            kinds = {str(kind): counted[kind] for kind in get_args(Verdict)}
            short.append({"measure": measure, "channel": channel, **kinds})
    tables = [
        Table(short, "In short: collections on which ours is … the best peer"),
        Table(_against_each(cells), "nDCG@10 against each peer: collections on which ours is …"),
    ]
    for measure in measures:
        rows = [_row(c, measure, verdicts[measure, c.collection, c.channel]) for c in cells]
        rows += [_row(c, measure, c.difference(measure)) for c in together]
        tables.append(Table(rows, measure))
    return Section(
        "Quality: keyword, dense and hybrid beside the peers",
        tables,
        notes=(*NOTES, *(f"Failed and left out: {line}" for line in failed)),
        command=COMMAND,
        order=1,
        conditions=_peer_versions(cells),
    )


NOTES = (
    "Everybody gets the same words (title and text, one document a unit) and all-MiniLM-L6-v2 "
    "vectors; lists are 100 deep; all judged queries of the split `test`, on which nothing was "
    "tuned.",
    "The best peer is chosen per cell, after the fact, as the one with the highest mean: that "
    "favours the peers. The interval is that of the paired bootstrap over queries (10,000 "
    "resamples, 95 %), p that of the paired permutation test; neither is corrected for the number "
    "of cells, so that one interval in twenty misses by luck alone.",
    "*above* and *below*: the interval leaves out 0. *equal*: the same score on every query.",
    "*all*: every query of every collection counts once; its best peer is one for all of them.",
    "Every score agrees with ir-measures to four places.",
    "Peers run with their defaults, the fusion rule apart where it must be named: LangChain FAISS, "
    "BM25Retriever, EnsembleRetriever (0.5, 0.5); LlamaIndex VectorStoreIndex, BM25Retriever, "
    "QueryFusionRetriever (reciprocal_rerank, one query); Haystack InMemoryDocumentStore (cosine), "
    "DocumentJoiner (reciprocal_rank_fusion); txtai hybrid=True, which above 5,000 documents turns "
    "to an approximate index by itself, and the same made exact (IDMap,Flat).",
    "bare loop: numpy, bm25s (English stemmer and stop words) and reciprocal rank fusion, k 60.",
)


def clocked(given: Collection, repeats: int, queries: int) -> Section:
    """Times of a hybrid query, every system in a process of its own, all in one sitting."""
    write_input(given)
    folder, out = given.folder / "input", given.folder / "times"
    kept: dict[str, list[Any]] = {}
    for _ in range(repeats):  # interleaved, so that a busy minute hits everybody
        for name in (OURS, *(peer for peer in PEERS if peer != "bare")):
            print(f"  clock: {LABELS[name]} …", flush=True)
            if name == OURS:
                command = [sys.executable, "-m", "benchmarks.results", "--clock", str(out)]
                command += [given.name, "--queries", str(queries)]
                subprocess.run(command, cwd=pages.ROOT, env=os.environ | ALONE, check=True)
            else:
                ask_peer(name, folder, out, "--times", str(queries))
            kept.setdefault(name, []).append(json.loads((out / "times.json").read_text()))
    figures = {
        name: {
            k: {key: statistics.median(r[k][key] for r in runs) for key in runs[0][k]}
            for k in runs[0]
        }
        for name, runs in kept.items()
    }
    floor: dict[str, dict[str, float]] = {}
    for k in next(iter(figures.values())):
        wall, cpu = (
            statistics.median(f[k][key] for f in figures.values()) for key in ("bare", "bare_cpu")
        )
        floor[k] = {"p50": wall, "cpu": cpu, "bare": wall, "bare_cpu": cpu}
    rows: list[pages.Row] = [{"": LABELS["bare"], **_time_cells(floor)}]
    rows += [{"": LABELS[name], **_time_cells(by_length)} for name, by_length in figures.items()]
    size = len(given.corpus.documents)
    return Section(
        f"Time: one hybrid query on {given.name}, its vector given",
        (Table(rows),),
        notes=(
            f"{size:,} documents, {queries} queries after 10 to warm up, repeats in turns: "
            f"{repeats}; medians; one thread a process; milliseconds. Ours goes through the "
            "runner, from the text of the query to hits with text and address, and takes 100 "
            "candidates of each channel for both lengths; the bare loop too; peers as many as "
            "they show.",
            "The ratio is to the bare loop's time in the same process, the two asked in turns; "
            "CPU: the same of the processor time of all threads, for a machine with other work "
            "to do, where the wall clock mostly measures how long a thread waits to be woken.",
        ),
        command=COMMAND,
        order=2,
        conditions={"load at the end": f"{os.getloadavg()[0]:.1f}"},
    )


def clock_ours(name: str, out: Path, queries: int) -> None:
    """Write our times of a collection to ``times.json``; runs in a process of its own."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        corpus = collection(name, folder / "beir").corpus
        routes, target = stack.enter_context(opened(corpus, folder))
        # One runner a length: searches are remembered within a runner.
        runners = {k: stack.enter_context(Runner(routes)) for k in (SHOWN, DEPTH)}

        def hybrid(query: str, k: int) -> list[str]:
            options = RetrieveOptions(search="hybrid", pool=DEPTH, top_k=k)
            return list(runners[k].run(retrieve(query, target, options)).document_ids)

        measured = times(_as_given(corpus), {"hybrid": hybrid}, queries)
    out.mkdir(parents=True, exist_ok=True)
    (out / "times.json").write_text(json.dumps(measured), "utf-8")


def _as_given(corpus: Corpus) -> Given:
    assert corpus.given_vectors is not None
    return Given(
        [d.document.id for d in corpus.documents],
        corpus.given,
        corpus.given_vectors,
        {row.id: row.user_input for row in corpus.testset.rows},
        dict(corpus.queries),
    )


def _row(cell: Compared, measure: str, difference: Difference) -> dict[str, Cell]:
    best = cell.best(measure)
    row: dict[str, Cell] = {
        "collection": f"{cell.collection} ({cell.queries} queries)",
        "channel": cell.channel,
    }
    for name, label in LABELS.items():
        scored = cell.systems.get(name)
        shown = None if scored is None else f"{scored.mean(measure):.3f}"
        row[label] = f"**{shown}**" if shown and name == best else shown
    return row | {
        "ours - best peer": f"{difference.mean:+.3f}",
        "95 %": f"{difference.low:+.3f} to {difference.high:+.3f}",
        "p": "< 0.001" if difference.p < 0.001 else f"{difference.p:.3f}",
        "verdict": difference.verdict,
    }


def _against_each(cells: Sequence[Compared]) -> list[pages.Row]:
    """How the verdicts fall for each peer and channel, whether it is the best one or not."""
    rows: list[pages.Row] = []
    for peer, channel in product(PEERS, CHANNELS):
        met = [c for c in cells if c.channel == channel and peer in c.systems]
        counted = Counter(c.difference("nDCG@10", peer).verdict for c in met)
        kinds = {str(kind): counted[kind] for kind in get_args(Verdict)}
        rows.append({"peer": LABELS[peer], "channel": channel, **kinds})
    return rows


def pooled(cells: Sequence[Compared]) -> list[Compared]:
    """All queries of all collections as one, per channel; of the systems that met them all."""
    merged = []
    for channel in CHANNELS:
        parts = [c for c in cells if c.channel == channel]
        if not parts:
            continue
        common = [name for name in LABELS if all(name in c.systems for c in parts)]
        systems = {
            name: Scored(
                {
                    measure: [v for c in parts for v in c.systems[name].values[measure]]
                    for measure in map(str, MEASURES)
                }
            )
            for name in common
        }
        merged.append(Compared(TOGETHER, channel, sum(c.queries for c in parts), systems))
    return merged


def _time_cells(by_length: Mapping[str, Mapping[str, float]]) -> dict[str, Cell]:
    cells: dict[str, Cell] = {}
    for k, figures in by_length.items():
        cells[f"top {k}: p50"] = f"{figures['p50']:.2f}"
        cells[f"top {k}: p95"] = f"{figures['p95']:.2f}" if "p95" in figures else None
        cells[f"top {k}: x bare"] = f"{figures['p50'] / figures['bare']:.1f}"
        cells[f"top {k}: x bare, CPU"] = f"{figures['cpu'] / figures['bare_cpu']:.1f}"
    return cells


def _peer_versions(cells: Sequence[Compared]) -> dict[str, str]:
    installed: dict[str, str] = versions("ir-measures")
    for path in sorted((CACHE / "results" / cells[0].collection).glob("*/versions.json")):
        installed |= json.loads(path.read_text("utf-8"))
    return installed


def _write_runs(folder: Path, channels: Mapping[Channel, Rankings]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for channel, rankings in channels.items():
        lines = [
            f"{query} Q0 {key} {rank} {DEPTH + 1 - rank} {OURS}\n"
            for query, ranking in rankings.items()
            for rank, key in enumerate(ranking, 1)
        ]
        (folder / f"{channel}.run").write_text("".join(lines), "utf-8")


def _json_lines(pairs: Any) -> str:
    return "".join(json.dumps({"id": key, "text": text}) + "\n" for key, text in pairs)


def _collections(names: Sequence[str], addresses: Sequence[str], folder: Path) -> Iterator[Any]:
    """Ways to make each collection; not all of them are held at once."""
    for name in names:
        yield partial(collection, name, folder / name)
    for address in addresses:
        yield partial(beir_collection, address)


def main() -> None:
    """Measure, print, and publish where all six collections were measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join(NAMES)}; all when none is given")
    parser.add_argument("--beir", action="append", default=[], metavar="DIR/SPLIT")
    parser.add_argument("--queries", type=int, default=150, help="queries to clock")
    parser.add_argument("--repeats", type=int, default=2, help="repeats of the clock; 0 for none")
    parser.add_argument("--render", action="store_true", help="only render the page again")
    parser.add_argument("--clock", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.render:
        pages.main()
        return
    if asked.clock:
        clock_ours(asked.names[0], asked.clock, asked.queries)
        return
    if not peers_python().is_file():
        raise SystemExit("the peers are not installed: run python -m benchmarks.peers.install")
    names = asked.names or (() if asked.beir else NAMES)
    whole = tuple(names) == NAMES and not asked.beir
    cells, failed = [], []
    with tempfile.TemporaryDirectory() as folder:
        for make in _collections(names, asked.beir, Path(folder)):
            given = make()
            channels, missing = compared(given)
            cells += channels
            failed += missing
        show("retrieval", quality_section(cells, failed), whole)
        if CLOCKED in names and asked.repeats:
            again = collection(CLOCKED, Path(folder) / "clocked")
            show("retrieval-times", clocked(again, asked.repeats, asked.queries), whole)


def show(name: str, section: Section, keep: bool) -> None:
    """Publish a section, or only print its tables."""
    if keep:
        print(f"written: {publish(name, section)}", flush=True)
    else:
        bare = replace(section, notes=(), command="")
        print("\n".join(pages.section_lines(bare)), flush=True)


if __name__ == "__main__":
    main()
