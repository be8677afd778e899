"""What systems return: texts, messages, documents, objects of other libraries, nonsense."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from ragwright.core import ConfigError, Row, SystemCallError
from ragwright.flow import AskSystem, Runner, SystemReply, ask_system
from ragwright.models import SystemHandler, SystemOptions, Systems, open_system, reply_of

EXPECTED = SystemReply("An answer", ("one", "two"), ("d1", "d2"))


def ask(system: Any, **options: Any) -> SystemReply:
    """What a system says, asked as an evaluation asks it."""
    systems = Systems()
    under = open_system(system, SystemOptions(**options))
    systems[under.name] = under
    with Runner({AskSystem: SystemHandler(systems)}) as runner:
        return runner.run(ask_system(under.name, "q"))


@dataclass
class LcDocument:
    """langchain_core.documents.Document"""

    page_content: str
    metadata: dict[str, Any] = field(default_factory=dict)
    id: str | None = None


@dataclass
class Message:
    """langchain_core.messages.AIMessage"""

    content: Any = ""


DOCUMENTS = [LcDocument("one", {"source": "d1"}), LcDocument("two", {"source": "s"}, "d2")]


@pytest.mark.parametrize(
    "said",
    [
        {"input": "q", "context": DOCUMENTS, "answer": "An answer"},
        {"query": "q", "source_documents": DOCUMENTS, "result": "An answer"},
        {"context": DOCUMENTS, "answer": Message("An answer")},
        {
            "response": "An answer",
            "documents": [
                {"text": "one", "id": "d1"},
                {"content": "two", "metadata": {"source": "d2"}},
            ],
        },
        {"answer": "An answer", "contexts": ["one", "two"], "context_ids": ["d1", "d2"]},
        {"messages": [Message("q"), Message("An answer")], "docs": DOCUMENTS},
        ("An answer", DOCUMENTS),
        (Message([{"type": "text", "text": "An answer"}]), [(d, 0.5) for d in DOCUMENTS]),
        Row(
            "1",
            "q",
            response="An answer",
            retrieved_contexts=("one", "two"),
            retrieved_context_ids=("d1", "d2"),
        ),
        EXPECTED,
    ],
)
def test_an_answer_with_its_passages(said: Any) -> None:
    assert reply_of(said) == EXPECTED


def test_an_answer_alone_has_no_passages() -> None:
    for said in ("An answer", Message("An answer"), {"output": "An answer"}, {"text": "An answer"}):
        assert reply_of(said) == SystemReply("An answer")
    chat = {"choices": [{"message": {"role": "assistant", "content": "An answer"}}]}
    assert reply_of(chat) == SystemReply("An answer")


def test_a_retriever_gives_passages_alone() -> None:
    assert reply_of(DOCUMENTS) == SystemReply(None, ("one", "two"), ("d1", "d2"))
    assert reply_of([]) == SystemReply(None, (), ())  # searched, and nothing was found


def test_ids_are_those_of_documents_and_never_have_holes() -> None:
    made_up = "0b3f8a52-7a43-4a3c-9f5e-0c8b9d1e2f30"
    chunk = LcDocument("one", {"source": "d1"}, made_up)  # what a vector store calls its chunk
    assert reply_of(("x", [chunk])).context_ids == ("d1",)
    assert reply_of(("x", [LcDocument("one", {}, made_up)])).context_ids == (made_up,)
    assert reply_of(("x", [LcDocument("one", {"key": 7})]), ids="key").context_ids == ("7",)
    assert reply_of(("x", [DOCUMENTS[0], LcDocument("two")])).context_ids is None


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
    """A Runnable."""

    def __init__(self, output: Any) -> None:
        self.output = output
        self.asked: list[Any] = []

    def invoke(self, asked: Any) -> Any:
        self.asked.append(asked)
        return self.output


def test_a_chain_gets_the_question_under_its_own_name() -> None:
    output = {"answer": "An answer", "context": DOCUMENTS}
    for key, asked in (("", "q"), ("input", {"input": "q"})):
        chain = Chain(output)
        assert ask(chain, question=key) == EXPECTED
        assert chain.asked == [asked]


class Node:
    """llama_index.core.schema.TextNode"""

    def __init__(self, text: str, ref: str | None, name: str) -> None:
        self.ref_doc_id, self.node_id = ref, name
        self.metadata = {"file_name": f"{name}.md"}
        self.text = text


@dataclass
class NodeWithScore:
    node: Node
    score: float = 0.5


@dataclass
class LlamaResponse:
    response: str | None
    source_nodes: list[NodeWithScore]


class QueryEngine:
    def query(self, text: str) -> LlamaResponse:
        nodes = [NodeWithScore(Node("one", "d1", "n1")), NodeWithScore(Node("two", None, "d2"))]
        return LlamaResponse("An answer", nodes)


def test_a_query_engine() -> None:
    assert ask(QueryEngine()) == EXPECTED
    assert ask(QueryEngine(), ids="file_name").context_ids == ("n1.md", "d2.md")


async def _later(question: str) -> Any:
    return {"answer": "An answer", "contexts": ["one", "two"], "ids": ["d1", "d2"]}


def _pieces(question: str) -> Iterator[str]:
    yield from ("An ", "ans", "wer")


async def _async_pieces(question: str) -> Any:
    for piece in ("An ", Message("answer")):
        yield piece


class Callable:
    def __call__(self, question: str) -> str:
        return "An answer"


def test_functions_of_every_kind() -> None:
    assert ask(_later) == EXPECTED
    for system in (_pieces, _async_pieces, Callable()):
        assert ask(system) == SystemReply("An answer")
    assert ask(lambda inputs: inputs["question"], question="question").response == "q"
    with pytest.raises(SystemCallError, match="missing 1 required positional argument: 'b'"):
        ask(lambda a, b: "x")
    with pytest.raises(ConfigError, match="cannot be asked"):
        ask(7)
