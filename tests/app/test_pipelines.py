"""Pipelines of LangChain and LlamaIndex as people write them, evaluated by their own packages."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright as command

import ragwright
from ragwright.core import ConfigError, SystemCallError
from ragwright.models import SystemOptions, open_system

pytestmark = [pytest.mark.slow, pytest.mark.needs_frameworks]

TEXTS = {
    "france.md": "Paris is the capital of France.",
    "germany.md": "Berlin is the capital of Germany.",
}
QUESTIONS = [
    {"question": f"What is the capital of {land.title()}?", "answer": town, "reference_ids": [name]}
    for name, land, town in (("france.md", "france", "Paris"), ("germany.md", "germany", "Berlin"))
]
MEASURES = "Contains, Recall@1, KPrecision"


def parts() -> tuple[Any, Any, Any, Any]:
    """A retriever by words, a prompt, a model that repeats its context, a parser."""
    documents = import_module("langchain_core.documents")
    retrievers = import_module("langchain_core.retrievers")
    prompts = import_module("langchain_core.prompts")
    runnables = import_module("langchain_core.runnables")
    parsers = import_module("langchain_core.output_parsers")

    base: Any = retrievers.BaseRetriever

    class ByWords(base):  # type: ignore[misc]
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Any]:
            words = set(query.strip("?").split())
            order = sorted(TEXTS, key=lambda n: -len(words & set(TEXTS[n].strip(".").split())))
            return [
                documents.Document(page_content=TEXTS[name], metadata={"source": name})
                for name in order[:1]
            ]

    def model(prompt: Any) -> str:
        said: str = prompt.to_string()
        return said.partition("Context: ")[2].split()[0]

    prompt = prompts.ChatPromptTemplate.from_template("Context: {context}\nQuestion: {question}")
    return ByWords(), prompt, runnables.RunnableLambda(model), parsers.StrOutputParser()


def joined(documents: Any) -> str:
    return "\n".join(document.page_content for document in documents)


def of_text() -> Any:
    """The chain of LangChain's own tutorial."""
    retriever, prompt, model, parser = parts()
    runnables = import_module("langchain_core.runnables")
    context = retriever | joined
    return (
        {"context": context, "question": runnables.RunnablePassthrough()} | prompt | model | parser
    )


def of_key() -> Any:
    retriever, prompt, model, parser = parts()
    context = itemgetter("question") | retriever | joined
    return {"context": context, "question": itemgetter("question")} | prompt | model | parser


def of_lambdas() -> Any:
    """A chain whose schema says nothing: it indexes its input in lambdas."""
    retriever, prompt, model, parser = parts()
    chosen: list[Callable[[Any], Any]] = [
        lambda given: joined(retriever.invoke(given["input"])), lambda given: given["input"]
    ]  # fmt: skip
    return {"context": chosen[0], "question": chosen[1]} | prompt | model | parser


def with_passages() -> Any:
    """A chain that returns its passages beside the answer, as `create_retrieval_chain` does."""
    retriever, prompt, model, parser = parts()
    runnables = import_module("langchain_core.runnables")
    answer = runnables.RunnablePassthrough.assign(context=lambda d: joined(d["context"]))
    return runnables.RunnableParallel(
        context=retriever, question=runnables.RunnablePassthrough()
    ).assign(answer=answer | prompt | model | parser)


@pytest.mark.parametrize("chain", [of_text, of_key, of_lambdas, with_passages])
def test_a_chain_of_langchain_is_measured_with_its_passages(chain: Callable[[], Any]) -> None:
    found = ragwright.evaluate(QUESTIONS, MEASURES, system=chain())
    assert [summary.mean for summary in found.summaries] == [1.0, 1.0, 1.0]
    row = found.results[0].row
    assert row is not None
    assert (row.response, row.retrieved_context_ids) == ("Paris", ("france.md",))


def test_a_retriever_of_langchain_is_measured_by_its_ranking() -> None:
    retriever, *_ = parts()
    found = ragwright.evaluate(QUESTIONS, "Recall@1, MRR@5", system=retriever)
    assert [summary.mean for summary in found.summaries] == [1.0, 1.0]


def test_a_chat_model_of_langchain_is_a_system() -> None:
    models = import_module("langchain_core.language_models")
    system = models.FakeListChatModel(responses=["Paris"])
    found = ragwright.evaluate(QUESTIONS, "Contains", system=system)
    assert found["Contains"].mean == 0.5


def test_earlier_turns_are_none() -> None:
    prompts = import_module("langchain_core.prompts")
    _, _, _, parser = parts()
    runnables = import_module("langchain_core.runnables")
    prompt = prompts.ChatPromptTemplate.from_messages(
        [prompts.MessagesPlaceholder("chat_history"), ("human", "{input}")]
    )
    system = prompt | runnables.RunnableLambda(lambda p: p.messages[-1].content) | parser
    found = ragwright.evaluate(
        [{"question": "Paris", "answer": "Paris"}], "ExactMatch", system=system
    )
    assert found["ExactMatch"].mean == 1.0


def test_several_inputs_of_which_none_is_the_question_are_an_error() -> None:
    prompts = import_module("langchain_core.prompts")
    prompt = prompts.ChatPromptTemplate.from_template("{frage} {anrede}")
    with pytest.raises(ConfigError, match="takes 2 inputs: anrede, frage") as told:
        open_system(prompt)
    assert "question: anrede" in str(told.value.hint)
    runnables = import_module("langchain_core.runnables")
    chain = prompt.partial(anrede="Sie") | runnables.RunnableLambda(lambda p: p.to_string())
    named = open_system(chain, SystemOptions(question="frage"))
    assert "Wo?" in named.ask("Wo?", ()).response


def test_a_chain_that_takes_no_question_says_how_to_name_its_input() -> None:
    runnables = import_module("langchain_core.runnables")
    broken = runnables.RunnableLambda(lambda given: given["a b"]["c"])
    with pytest.raises(SystemCallError, match="neither as a text nor as a key") as told:
        ragwright.evaluate(QUESTIONS, "Contains", system=broken)
    assert "question: NAME" in str(told.value.hint)


@pytest.mark.filterwarnings("ignore:.langchain-community. is being sunset:DeprecationWarning")
def test_a_bm25_retriever_of_langchain_community() -> None:
    found = import_module("langchain_community.retrievers")
    others = {"moon.md": "The moon is grey.", "sea.md": "The sea is deep.", "oil.md": "Oil burns."}
    corpus = {**TEXTS, **others}  # with fewer texts every word is in half of them, and weighs 0
    retriever = found.BM25Retriever.from_texts(
        list(corpus.values()),
        metadatas=[{"source": name} for name in corpus],
        k=1,
        preprocess_func=lambda text: re.findall(r"\w+", text),
    )
    runnables = import_module("langchain_core.runnables")
    chain = retriever | runnables.RunnableLambda(lambda documents: joined(documents).split()[0])
    assert ragwright.evaluate(QUESTIONS, "Recall@1, Contains", system=chain)["Recall@1"].mean == 1.0


def test_the_command_asks_a_chain_in_a_file(tmp_path: Path) -> None:
    import_module("langchain_core.runnables")
    (tmp_path / "pipeline.py").write_text(
        "from langchain_core.runnables import RunnableLambda, RunnablePassthrough\n"
        "from langchain_core.prompts import PromptTemplate\n"
        "prompt = PromptTemplate.from_template('{context} {question}')\n"
        "chain = (\n"
        "    {'context': lambda q: 'Paris.', 'question': lambda q: q}\n"
        "    | prompt\n"
        "    | RunnableLambda(lambda p: p.to_string())\n"
        ")\n",
        "utf-8",
    )
    (tmp_path / "t.csv").write_text("question,answer\nWhere?,Paris\nWhen?,now\n", "utf-8")
    words = ("--testset", "t.csv", "--measures", "Contains")
    done = command(tmp_path, "eval", "--system", "pipeline:chain", *words)
    assert "0.5" in done.stdout


# -- LlamaIndex ------------------------------------------------------------------------------


def nodes() -> list[Any]:
    schema = import_module("llama_index.core.schema")
    return [
        schema.TextNode(text=text, id_=f"node of {name}", metadata={"file_name": name})
        for name, text in TEXTS.items()
    ]


def engine(mode: str = "compact", **more: Any) -> Any:
    """A query engine over keywords, with LlamaIndex's own scripted model."""
    core = import_module("llama_index.core")
    llms = import_module("llama_index.core.llms")

    custom: Any = llms.CustomLLM

    class Scripted(custom):  # type: ignore[misc]
        @property
        def metadata(self) -> Any:
            return llms.LLMMetadata()

        def complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
            town = next(text.split()[0] for text in TEXTS.values() if text in prompt)
            return llms.CompletionResponse(text=town, delta=town)

        def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
            yield self.complete(prompt)

    embedding: Any = import_module("llama_index.core.embeddings").BaseEmbedding

    class ByLetters(embedding):  # type: ignore[misc]
        def _get_text_embedding(self, text: str) -> list[float]:
            return [float("France" in text), float("Germany" in text), 0.1]

        _get_query_embedding = _get_text_embedding

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

    index = core.VectorStoreIndex(nodes(), embed_model=ByLetters())
    return index.as_query_engine(
        llm=Scripted(), similarity_top_k=1, response_mode=mode, **more
    ), index.as_retriever(similarity_top_k=1)


@pytest.mark.parametrize("more", [{}, {"streaming": True}])
def test_a_query_engine_of_llama_index_is_measured_with_its_passages(more: dict[str, Any]) -> None:
    asked, _ = engine(**more)
    under = open_system(asked, SystemOptions(ids="file_name"))
    found = ragwright.evaluate(QUESTIONS, MEASURES, system=under)
    assert [summary.mean for summary in found.summaries] == [1.0, 1.0, 1.0]


def test_a_retriever_of_llama_index_is_measured_by_its_ranking() -> None:
    _, retriever = engine()
    under = open_system(retriever, SystemOptions(ids="file_name"))
    assert ragwright.evaluate(QUESTIONS, "MRR@5", system=under)["MRR@5"].mean == 1.0
