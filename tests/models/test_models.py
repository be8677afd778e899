"""What systems return: texts, messages, documents, objects of other libraries, nonsense."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace as Made
from typing import Any

import pytest

from ragwright.core import ConfigError, Row, SystemCallError
from ragwright.flow import AskSystem, Runner, SystemReply, ask_system
from ragwright.models import SystemHandler, SystemOptions, Systems, open_system, reply_of

SAID, BOTH, IDS = "An answer", ("one", "two"), ("d1", "d2")
EXPECTED = SystemReply(SAID, BOTH, IDS)


def ask(system: Any, **options: Any) -> SystemReply:
    """What a system says, asked as an evaluation asks it."""
    systems = Systems()
    under = open_system(system, SystemOptions(**options))
    systems[under.name] = under
    with Runner({AskSystem: SystemHandler(systems)}) as runner:
        return runner.run(ask_system(under.name, "q"))


@dataclass
class LcDocument:
    page_content: str
    metadata: dict[str, Any] = field(default_factory=dict)
    id: str | None = None


@dataclass
class Message:
    content: Any = ""


DOCUMENTS = [LcDocument("one", {"source": "d1"}), LcDocument("two", {"source": "s"}, "d2")]
PLAIN = [{"text": "one", "id": "d1"}, {"content": "two", "metadata": {"source": "d2"}}]
MADE_UP = "0b3f8a52-7a43-4a3c-9f5e-0c8b9d1e2f30"  # what a vector store calls its chunk


@pytest.mark.parametrize(
    ("said", "reply"),
    [
        ({"input": "q", "context": DOCUMENTS, "answer": SAID}, EXPECTED),
        ({"query": "q", "source_documents": DOCUMENTS, "result": SAID}, EXPECTED),
        ({"context": DOCUMENTS, "answer": Message(SAID)}, EXPECTED),
        ({"response": SAID, "documents": PLAIN}, EXPECTED),
        ({"answer": SAID, "contexts": [*BOTH], "context_ids": [*IDS]}, EXPECTED),
        ({"messages": [Message("q"), Message(SAID)], "docs": DOCUMENTS}, EXPECTED),
        ((SAID, DOCUMENTS), EXPECTED),
        ((Message([{"type": "text", "text": SAID}]), [(d, 0.5) for d in DOCUMENTS]), EXPECTED),
        (
            Row("1", "q", response=SAID, retrieved_contexts=BOTH, retrieved_context_ids=IDS),
            EXPECTED,
        ),
        (EXPECTED, EXPECTED),
        (SAID, SystemReply(SAID)),
        (Message(SAID), SystemReply(SAID)),
        ({"output": SAID}, SystemReply(SAID)),
        ({"text": SAID}, SystemReply(SAID)),
        ({"choices": [{"message": {"role": "assistant", "content": SAID}}]}, SystemReply(SAID)),
        (DOCUMENTS, SystemReply(None, BOTH, IDS)),
        ([], SystemReply(None, (), ())),  # searched, and nothing was found
    ],
)
def test_what_a_system_returns_is_an_answer_passages_or_both(said: Any, reply: Any) -> None:
    assert reply_of(said) == reply


@pytest.mark.parametrize(
    ("documents", "key", "found"),
    [
        ([LcDocument("one", {"source": "d1"}, MADE_UP)], "", ("d1",)),
        ([LcDocument("one", {}, MADE_UP)], "", (MADE_UP,)),
        ([LcDocument("one", {"key": 7})], "key", ("7",)),
        ([DOCUMENTS[0], LcDocument("two")], "", None),
    ],
)
def test_ids_are_those_of_documents_and_never_have_holes(
    documents: list[LcDocument], key: str, found: tuple[str, ...] | None
) -> None:
    assert reply_of(("x", documents), ids=key).context_ids == found


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (3, "the system returned int: 3"),
        (None, "returned NoneType"),
        ({"answer": 3}, "the answer is int: 3, not a text"),
        ({"answer": None, "contexts": ["one"]}, "returned dict"),
        ({"score": 1}, r"returned dict: \{'score': 1\}"),
        ({"answer": "x", "contexts": [{"score": 1}]}, "a passage is dict"),
        ({"answer": "x", "contexts": 7}, "the passages are int: 7"),
    ],
)
def test_what_cannot_be_read_is_shown(said: Any, told: str) -> None:
    with pytest.raises(SystemCallError, match=told):
        ask(lambda question: said)


# -- how systems are asked ----------------------------------------------------------------------


class Chain:
    def __init__(self) -> None:
        self.asked: list[Any] = []

    def invoke(self, asked: Any) -> Any:
        self.asked.append(asked)
        return {"answer": SAID, "context": DOCUMENTS}


def test_a_chain_gets_the_question_under_its_own_name() -> None:
    for key, asked in (("", "q"), ("input", {"input": "q"})):
        chain = Chain()
        assert ask(chain, question=key) == EXPECTED
        assert chain.asked == [asked]


def node(text: str, ref: str | None, name: str) -> Made:
    """llama_index.core.schema.NodeWithScore of a TextNode"""
    metadata = {"file_name": f"{name}.md"}
    return Made(node=Made(ref_doc_id=ref, node_id=name, metadata=metadata, text=text), score=0.5)


class QueryEngine:
    def query(self, text: str) -> Made:
        return Made(response=SAID, source_nodes=[node("one", "d1", "n1"), node("two", None, "d2")])


def test_a_query_engine() -> None:
    assert ask(QueryEngine()) == EXPECTED
    assert ask(QueryEngine(), ids="file_name").context_ids == ("n1.md", "d2.md")


async def _later(question: str) -> Any:
    return {"answer": SAID, "contexts": [*BOTH], "ids": [*IDS]}


def _pieces(question: str) -> Iterator[str]:
    yield from ("An ", "ans", "wer")


async def _async_pieces(question: str) -> Any:
    for piece in ("An ", Message("answer")):
        yield piece


class Callable:
    def __call__(self, question: str) -> str:
        return SAID


def test_functions_of_every_kind() -> None:
    assert ask(_later) == EXPECTED
    for system in (_pieces, _async_pieces, Callable()):
        assert ask(system) == SystemReply(SAID)
    assert ask(lambda inputs: inputs["question"], question="question").response == "q"
    with pytest.raises(SystemCallError, match="missing 1 required positional argument: 'b'"):
        ask(lambda a, b: "x")
    with pytest.raises(ConfigError, match="cannot be asked"):
        ask(7)
