"""Doors for a project's own files and for words of the command line."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ragwright.answer import load_personas
from ragwright.core import render
from ragwright.experiment import load_study, read_key, read_results
from ragwright.measure import load_rubrics, parse_measures, parse_rule
from ragwright.project import load_settings, project_sections
from ragwright.retrieve import parse_filter, parse_soft_filter
from ragwright.testsets import load_testset, read_rows

from . import Run, Target
from .damage import damaged_bytes

_ROWS = (
    b'{"user_input": "How often?", "response": "Yearly.", "reference": "every year"}\n'
    b'{"user_input": "By whom?", "retrieved_contexts": ["a", "b"], "id": "2"}\n',
    b'[{"question": "q", "answer": "a", "ground_truth": ["b"], "results": []}]',
    b'{"results": [{"query": "q", "response": "r", "retrieved_context": [{"text": "t"}]}]}',
    b'{"columns": ["question", "answer"], "data": [["q", "a"], ["r", "b"]]}',
    b'{"columns": ["question", "answer"], "data": [["q"], 7]}',
    b'{"mine": [{"question": "q"}]}',
    b'[{"question": "q"}] [{"question": "r"}]',
    b'{"question": "half \\ud800", "mark": "\\ud800"}',
)
_TABLE = (b'question,answer,reference\n"How, often?",Yearly,\'=cmd\nBy whom?,x,y\n',)
_SETTINGS = (
    b"sources: [docs/]\nchunk: {size: 200, overlap: 20}\nretrieve: {top_k: 5, filters: []}\n"
    b"models:\n  openai:gpt-4o-mini: {price_in: 0.15, price_out: 0.6}\n",
    b"sources: &s [a]\nstore: {kind: lance}\nanswer: {model: *s}\njobs: {a: {steps: [x]}}\n",
    b"models: [a]\n",
)
_STUDY = (
    b"study: {testset: t.jsonl, measures: 'nDCG@5', search: tpe, trials: 3}\n"
    b"chunk: {size: [100, 200], overlap: {low: 0, high: 50}}\n",
    b"- a\n",
)
_PERSONA = (b"name: fitter\naudience: workshop\ntechnical_density: high\nanswer_length: long\n",)
_RUBRIC = (
    b"name: Tone\nscale: {1: rude, 2: plain, 3: kind}\ncriteria: how kind it is\n"
    b"needs: [user_input, response]\n",
)
_KEY = (b'{"seed": 0, "measures": ["Tone"], "answers": {"a1": ["run", "q1"]}, "version": 1}',)
_RESULTS = (
    b'{"ragwright_results": 1, "name": "r", "measures": {"MRR": {"low": 0, "high": 1, '
    b'"higher_is_better": true}}, "notes": [], "manifest": {}}\n'
    b'{"row_id": "q1", "ranking": ["d"], "scores": [{"measure": "MRR", "state": "scored", '
    b'"value": 0.5}], "row": {"id": "q1", "user_input": "q", "response": "r"}}\n'
    b'{"row_id": "q2", "ranking": [], "scores": [{"measure": "MRR", "state": "errored", '
    b'"reason": "x"}]}\n',
)


def _file(name: str, read: Callable[[Path], Any]) -> Callable[[], Iterator[Run]]:
    """A run that puts a case in a file of a folder of its own and reads that."""

    def opened() -> Iterator[Run]:
        with TemporaryDirectory() as folder:
            path = Path(folder) / name

            def run(data: bytes) -> None:
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(data)
                read(path)

            yield run

    return opened


_FILES: tuple[tuple[str, str, tuple[bytes, ...], Callable[[Path], Any], int], ...] = (
    ("rows", "rows.jsonl", _ROWS, read_rows, 50),
    ("rows in one value", "rows.json", _ROWS, read_rows, 50),
    ("table of rows", "rows.csv", _TABLE, read_rows, 50),
    ("testset", "rows.jsonl", _ROWS, lambda path: load_testset(str(path)), 20),
    ("settings", "ragwright.yaml", _SETTINGS, load_settings, 37),
    ("study", "study.yaml", _STUDY, lambda path: load_study(path, project_sections()), 20),
    ("persona", "a.yaml", _PERSONA, lambda path: load_personas(path.parent), 25),
    ("rubric", "rubrics/a.yaml", _RUBRIC, lambda path: load_rubrics(path.parents[1]), 25),
    ("key of a sheet", "a.key.json", _KEY, read_key, 37),
    ("results", "results.jsonl", _RESULTS, read_results, 50),
)


def _words(read: Callable[[str], Any]) -> Callable[[], Iterator[Run]]:
    def opened() -> Iterator[Run]:
        yield read

    return opened


def damaged_text(chance: random.Random, text: str) -> str:
    """A text with its bytes damaged, as an argument of a command may hold them."""
    return damaged_bytes(chance, text.encode("utf-8", "surrogateescape")).decode(
        "utf-8", "surrogateescape"
    )


_WORDS: tuple[tuple[str, tuple[str, ...], Callable[[str], Any], int], ...] = (
    ("filter", ("lang=en|de", "year=2000..2024", "kind!=record", "a=b=c"), parse_filter, 75),
    ("soft filter", ("topic=health^3", "lang!=fr^0.5"), parse_soft_filter, 75),
    ("measures", ("nDCG@10,MRR", "ROUGE(L), Rubric(tone)", "Recall(rel=2)@5"), parse_measures, 75),
    ("rule", ("nDCG@10>=0.7", "Faithfulness>=baseline-0.2"), parse_rule, 75),
    (
        "--set",
        ("chunk.size=200", "retrieve.filters=[{field: a, values: [b]}]", "embed.model=null"),
        lambda text: load_settings(Path("none.yaml"), (text,)),
        25,
    ),
    (
        "template",
        ("Hello {{ name }}: {% for i in items %}{{ i }}{% endfor %}", "{{ items | join(', ') }}"),
        lambda text: render(text, {"name": "Ada", "items": ["a", "b"]}),
        50,
    ),
)

TARGETS: tuple[Target, ...] = (
    *(
        Target(name, corpus, damaged_bytes, contextmanager(_file(file, read)), cases)
        for name, file, corpus, read, cases in _FILES
    ),
    *(
        Target(name, corpus, damaged_text, contextmanager(_words(read)), cases)
        for name, corpus, read, cases in _WORDS
    ),
)
