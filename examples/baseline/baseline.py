"""Fast scoring against a baseline of questions and answers, in French: see README.md."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ragwright import MeasureSetup, Session, Workbench
from ragwright.core import Row
from ragwright.experiment import BaselineOptions
from ragwright.measure import qa_distances
from ragwright.report import baseline_table
from ragwright.testing import Reply, ScriptedServer, ServerRequest
from ragwright.testsets import SynthesisOptions, Testset, import_testset, write_rows

HERE = Path(__file__).parent
DATA = Path(os.environ.get("RAGWRIGHT_DATA") or HERE.parents[2] / "shared" / "data")
AVARE = DATA / "moliere" / "moliere_avare.xml"
BANNER = (
    "*" * 79 + "\n"
    "SCRIPTED: {what}.\n"
    "Scripted answers copy, scripted vectors count shared words: read how scores behave,\n"
    "not what they are.\n"
    "For real: --model openai:gpt-4o-mini --embed openai:text-embedding-3-small\n" + "*" * 79
)
SPEAKER = re.compile(r"^([A-ZÀ-Ý][A-ZÀ-Ý' -]{2,})\.(?= )", re.MULTILINE)
WHO = "Qui sont les personnages de la maison au baromètre ?"
THEFT = "Qui a volé la cassette d'Harpagon ?"
SPLITTERS = (
    ("C': 600 tokens, overlap 100", ("chunk.by=tokens", "chunk.size=600", "chunk.overlap=100")),
    ("C': 60 tokens, overlap 10", ("chunk.by=tokens", "chunk.size=60", "chunk.overlap=10")),
)
ABSURD = (
    (
        "Pourquoi Bastienne refuse-t-elle la vente du baromètre ?",
        "Parce qu'il prévient de l'orage, et que c'est la voix de son maître.",
        "Bastienne refuse-t-elle la vente du baromètre parce que la vente du baromètre refuse ?",
    ),
    (
        "Où se trouve la clef du baromètre à l'acte II ?",
        "Dans l'horloge de la cuisine.",
        "La clef du baromètre se trouve où la clef du baromètre se trouve à l'acte II.",
    ),
)


@dataclass(frozen=True)
class Cast:
    """Models of the run.

    Attributes:
        chat: Who answers where a model must.
        embedder: What makes the vectors of distances.
        settings: Overrides of the project file that go with them.
        writes: The chat model is a real one and may write questions.
    """

    chat: str
    embedder: str
    settings: tuple[str, ...]
    writes: bool


def scripted(request: ServerRequest) -> str | Reply:
    """A reader that copies: speakers of the passages it is shown, or the likeliest sentence."""
    body = request.body
    if "messages" not in body:
        return Reply()
    prompt = "\n".join(str(message["content"]) for message in body["messages"])
    system = str(body["messages"][0]["content"])
    user = str(body["messages"][-1]["content"])
    if '"items"' in system:
        items = [{"item": m[1], "quote": f"{m[1]}."} for m in SPEAKER.finditer(user)]
        return json.dumps({"items": list({i["item"]: i for i in items}.values())})
    asked = re.findall(r"^Question: (.*)$", user, re.MULTILINE)[-1]
    if '"route"' in system:
        route = {"route": "corpus", "database": "", "reason": "every scene names some"}
        return json.dumps({**route, "rewrite": False, "split": False})
    passages = re.findall(r"^\[(\d+)\] .*\n((?:.*\n)+?)(?=\n\[\d+\] |\n?Question: )", prompt, re.M)
    if not passages:
        return "Je ne peux pas répondre sans le texte."
    if "personnages" in asked:
        names = dict.fromkeys(m[1] for _, text in passages for m in SPEAKER.finditer(text))
        return f"{', '.join(names)} [1]."
    wanted = set(re.findall(r"\w{3,}", asked.lower()))
    sentences = [
        (
            len(wanted & set(re.findall(r"\w{3,}", sentence.lower()))),
            f"{sentence.strip()} [{number}]",
        )
        for number, text in passages
        for sentence in re.split(r"(?<=[.!?])\s+", " ".join(text.split()))
    ]
    return max(sentences, key=lambda scored: scored[0])[1]


@contextmanager
def casting(model: str, embed: str) -> Iterator[Cast]:
    """The models of the command line; a scripted server for those that are not named."""
    missing = [name for name, given in (("answers", model), ("vectors", embed)) if not given]
    vectors = (f"embed.model={embed}",) if embed else ()
    if not missing:
        yield Cast(model, embed, vectors, True)
        return
    print(BANNER.format(what=f"{' and '.join(missing)} come from a server on this machine"))
    with ScriptedServer(scripted, record=False) as server:
        # Many dimensions, so that few words share one.
        base = (f"models.scripted.base={server.url}", "models.scripted.params={dimensions: 512}")
        names = (model or "scripted:lecteur", embed or "scripted:mots")
        yield Cast(*names, (*base, *vectors), bool(model))


def pairs(bench: Workbench, cast: Cast, count: int) -> Testset:
    """Questions and answers with the scenes they come from: ours, and a model's; else gaps."""
    own = bench.project.folder.testsets / "paires.jsonl"
    rows: list[Row] = []
    if own.exists():
        rows += import_testset(bench.project, own).rows
    if cast.writes:
        options = SynthesisOptions(count, kinds=("model",), model=cast.chat)
        rows += bench.synth(options)[0].rows
    if not rows:
        print(
            "\nNo questions without --model: speeches hold no definitions; gaps are used instead."
        )
        rows += bench.synth(SynthesisOptions(count, kinds=("cloze",)))[0].rows
    path = bench.project.folder.testsets / "baseline.jsonl"
    write_rows(rows, path)
    kinds = [str(row.metadata.get("level") or row.metadata.get("kind")) for row in rows]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
    print(
        f"\n# Baseline: {len(rows)} pairs ({counts}); `ragwright review {path.name}` to edit them\n"
    )
    return Testset(str(path), tuple(rows))


def compare_splitters(cast: Cast, testset: Testset, bench: Workbench) -> None:
    """S_b and S_e for three splitters: of questions, with and without the chunk; and of gaps."""
    common = [f"judge.embedder={cast.embedder}"]
    common += [f"answer.model={cast.chat}"] if cast.writes else []
    for kind in ("questions", "gaps"):
        pairs = replace(testset, rows=of_kind(testset.rows, kind))
        if len(pairs.rows) < 2:
            continue
        for name, splitter in (("C: one chunk a scene", ()), *SPLITTERS):
            print(f"\n## {kind}, {name}\n")
            options = BaselineOptions((*common, *splitter))
            print(baseline_table(bench.baseline(pairs, options)))
    print(
        "\nAn answer that echoes the question is nearest of all, so a small distance alone proves\n"
        "nothing: read it between `echoed` and `shuffled`. Snippets repeat the words of\n"
        "the question; a gap is filled by the sentence it was cut from, so its S_e says nothing."
    )


def of_kind(rows: Sequence[Row], kind: str) -> tuple[Row, ...]:
    """Rows that somebody asked, or sentences with a gap."""
    return tuple(row for row in rows if (row.metadata.get("kind") == "cloze") == (kind == "gaps"))


def with_and_without(bench: Workbench, cast: Cast, testset: Testset) -> None:
    """The same questions by the same model: searched, from the pair's own chunk, without it."""
    print("\n# With and without the chunk\n")
    pairs = replace(testset, rows=of_kind(testset.rows, "questions"))
    settings = (f"judge.embedder={cast.embedder}", f"answer.model={cast.chat}")
    print(baseline_table(bench.baseline(pairs, BaselineOptions(settings, context=True))) + "\n")


def known_failures(bench: Workbench, cast: Cast) -> None:
    """Absurd answers that win, and the right words from the wrong act."""
    print("# Known failures of distances\n")
    for question, good, absurd in ABSURD:
        rows = [Row("good", question, good), Row("absurd", question, absurd)]
        setup = MeasureSetup(embedder=cast.embedder)
        own = bench.project.runner.run(qa_distances(rows, setup)).distances
        winner = "absurd" if own[1] < own[0] else "good"
        print(f"{question}\n  {own[0]:.3f}  good:   {good}\n  {own[1]:.3f}  absurd: {absurd}")
        print(f"  the {winner} one is nearer\n")


def acts(project: Path, cast: Cast, question: str, settings: Sequence[str]) -> list[str]:
    """The acts of the hits for a question."""
    with Workbench.open(project, Session((*cast.settings, *settings))) as bench:
        return [str(hit.metadata.get("acte", "?")) for hit in bench.retrieve(question).hits]


def wrong_act(project: Path, cast: Cast) -> None:
    """What a filter and turns by section do for questions about one act, or about a debate."""
    print("# Wrong section, one side\n")
    key = "Où Madame Ortie a-t-elle caché la clef ? À la fin de la pièce."
    debate = "Faut-il vendre le baromètre ? Pour et contre."
    for question, remedy in (
        (key, "retrieve.filters=[{field: acte, values: [II]}]"),
        (debate, "retrieve.select.balance=acte"),
    ):
        size = ("retrieve.top_k=2", "retrieve.search=keyword")
        plain = acts(project, cast, question, size)
        mended = acts(project, cast, question, (*size, remedy))
        print(f"{question}\n  acts of the hits: {', '.join(plain)}")
        print(f"  with {remedy}: {', '.join(mended)}\n")


def whole_corpus(project: Path, cast: Cast) -> None:
    """A question about everything: a few chunks against every chunk."""
    texts = [path.read_text("utf-8") for path in sorted((project / "piece").glob("*.md"))]
    names = sorted({match[1] for text in texts for match in SPEAKER.finditer(text)})
    print(f"# {WHO} ({len(names)} speak)\n")
    for name, method in (("two scenes", "index"), ("chosen by model", "model")):
        settings = (f"answer.model={cast.chat}", f"retrieve.route.method={method}")
        with Workbench.open(project, Session((*cast.settings, *settings))) as bench:
            answer = bench.ask(WHO)
        reply = answer.text.casefold()
        named = sum(character.casefold() in reply for character in names)
        print(f"  {name:16}  route {answer.route:7}  {named} of {len(names)} characters")
    print()


def own_play(project: Path, cast: Cast) -> None:
    """Everything on the play in `piece/`."""
    with Workbench.open(project, Session(cast.settings)) as bench:
        bench.ingest()
        testset = pairs(bench, cast, 12)
        compare_splitters(cast, testset, bench)
        with_and_without(bench, cast, testset)
        known_failures(bench, cast)
    wrong_act(project, cast)
    whole_corpus(project, cast)


def avare(folder: Path, cast: Cast, play: Path) -> None:
    """The same baseline on L'Avare, where its file is at hand: 40 offline pairs."""
    print(f"# L'Avare, read from {play.name}")
    folder.mkdir(parents=True, exist_ok=True)
    text = (HERE / "ragwright.yaml").read_text("utf-8")
    (folder / "testsets").mkdir(exist_ok=True)
    settings = text.replace("[piece]", json.dumps([str(play.resolve())]))
    (folder / "ragwright.yaml").write_text(settings, "utf-8")
    with Workbench.open(folder, Session(cast.settings)) as bench:
        bench.ingest()
        compare_splitters(cast, pairs(bench, cast, 40), bench)
    print(f"\n{THEFT}  (the thief is seen in act IV, and everybody speaks of it in act V)")
    for remedy in ("", "retrieve.select.balance=section:2"):
        chosen = ("retrieve.top_k=4", "retrieve.search=keyword", *([remedy] if remedy else []))
        with Workbench.open(folder, Session((*cast.settings, *chosen))) as bench:
            hits = bench.retrieve(THEFT).hits
        headings = ", ".join(hit.headings[1] for hit in hits if len(hit.headings) > 1)
        print(f"  {remedy or 'acts of the hits'}: {headings}")


def main() -> None:
    """The baseline of our own play, and of L'Avare where its file is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="", help="chat model, such as openai:gpt-4o-mini")
    parser.add_argument("--embed", default="", help="embedding model: openai:NAME, st:FOLDER")
    parser.add_argument("--avare", type=Path, default=AVARE, help="TEI file of L'Avare")
    parser.add_argument("--folder", type=Path, help="where to work and keep it; else a passing one")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as passing, casting(asked.model, asked.embed) as cast:
        project = (asked.folder or Path(passing)) / "piece-projet"
        ignored = shutil.ignore_patterns(".ragwright", "__pycache__", "*.py")
        shutil.copytree(HERE, project, ignore=ignored, dirs_exist_ok=True)
        own_play(project, cast)
        if asked.avare.is_file():
            avare(project.parent / "avare-projet", cast, asked.avare)
        else:
            print(f"L'Avare is not at {asked.avare}: left out")


if __name__ == "__main__":
    main()
