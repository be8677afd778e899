"""Pipelines of LangChain and LlamaIndex as people write them, evaluated by their own packages."""

from __future__ import annotations

from importlib import import_module
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright as command

import ragwright
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


def of_key() -> Any:
    retriever, prompt, model, parser = parts()
    context = itemgetter("question") | retriever | joined
    return {"context": context, "question": itemgetter("question")} | prompt | model | parser


def with_passages() -> Any:
    """A chain that returns its passages beside the answer, as `create_retrieval_chain` does."""
    retriever, prompt, model, parser = parts()
    runnables = import_module("langchain_core.runnables")
    answer = runnables.RunnablePassthrough.assign(context=lambda d: joined(d["context"]))
    return runnables.RunnableParallel(
        context=retriever, question=runnables.RunnablePassthrough()
    ).assign(answer=answer | prompt | model | parser)


def test_a_chain_of_langchain_is_measured_with_its_passages() -> None:
    found = ragwright.evaluate(QUESTIONS, MEASURES, system=with_passages())
    assert [summary.mean for summary in found.summaries] == [1.0, 1.0, 1.0]
    row = found.results[0].row
    assert row is not None
    assert (row.response, row.retrieved_context_ids) == ("Paris", ("france.md",))


def test_a_chain_of_langchain_gets_the_question_under_its_key() -> None:
    under = open_system(of_key(), SystemOptions(question="question"))
    assert ragwright.evaluate(QUESTIONS, "Contains", system=under)["Contains"].mean == 1.0


def test_a_retriever_of_langchain_is_measured_by_its_ranking() -> None:
    retriever, *_ = parts()
    found = ragwright.evaluate(QUESTIONS, "Recall@1, MRR@5", system=retriever)
    assert [summary.mean for summary in found.summaries] == [1.0, 1.0]


def test_a_chat_model_of_langchain_is_a_system() -> None:
    models = import_module("langchain_core.language_models")
    system = models.FakeListChatModel(responses=["Paris"])
    found = ragwright.evaluate(QUESTIONS, "Contains", system=system)
    assert found["Contains"].mean == 0.5


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


def test_a_query_engine_of_llama_index_is_measured_with_its_passages() -> None:
    asked, _ = engine()
    under = open_system(asked, SystemOptions(ids="file_name"))
    found = ragwright.evaluate(QUESTIONS, MEASURES, system=under)
    assert [summary.mean for summary in found.summaries] == [1.0, 1.0, 1.0]


def test_a_retriever_of_llama_index_is_measured_by_its_ranking() -> None:
    _, retriever = engine()
    under = open_system(retriever, SystemOptions(ids="file_name"))
    assert ragwright.evaluate(QUESTIONS, "MRR@5", system=under)["MRR@5"].mean == 1.0
