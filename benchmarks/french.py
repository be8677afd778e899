"""French: PIAF's questions, each to the paragraph it was written about.

    python -m benchmarks.french            # prints
    python -m benchmarks.french --publish  # and writes docs/results/

761 paragraphs of French Wikipedia with their article's title, 3,835 questions. Ours with the
French analyzer, and with the language left at ``auto``; beside them in the same run, on the
same texts and vectors, rank_bm25 over words as LangChain's BM25Retriever cuts them by default
(white space, nothing folded), and its equal rank fusion with the dense ranking. The embedding
model is an English one, so dense search is weak here, and fusion has to give it less weight.

PIAF is development data: title weight and fusion were chosen on it and on other sets.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from benchmarks.codes import Task, table
from benchmarks.data_sets import DATA
from benchmarks.publish import Section, publish
from ragwright.core import Document
from ragwright.models import AnalyzerOptions


def piaf(data: Path = DATA) -> Task:
    """Paragraphs, and the questions asked about each."""
    path = data / "piaf" / "piaf-v1.0.json"
    documents: list[Document] = []
    gold: dict[str, set[str]] = {}
    for number, article in enumerate(json.loads(path.read_text("utf-8"))["data"]):
        for place, paragraph in enumerate(article["paragraphs"]):
            name = f"{number}-{place}"
            text, title = paragraph["context"], article["title"]
            documents.append(Document(name, str(path), text, title=title, language="fr"))
            for asked in paragraph["qas"]:
                gold.setdefault(asked["question"], set()).add(name)
    right = {query: frozenset(names) for query, names in gold.items()}
    return Task("piaf", "piaf", tuple(documents), right)


def main() -> None:
    """Both settings of the language."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--publish", action="store_true", help="write docs/results/")
    given = parser.parse_args()
    task = piaf()
    tables = []
    for language in ("fr", "auto"):
        named = Task(f"piaf, language {language}", task.cache, task.documents, task.gold)
        tables.append(table(named, str.split, AnalyzerOptions(language=language)))
    if given.publish:
        notes = ("PIAF is development data: title weight and fusion were chosen on it too.",)
        command = "python -m benchmarks.french --publish"
        section = Section("French questions", tables, notes, command, order=40)
        print(publish("french", section))


if __name__ == "__main__":
    main()
