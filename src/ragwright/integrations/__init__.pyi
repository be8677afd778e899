from ._haystack import HaystackRetriever as HaystackRetriever
from ._langchain import LangChainRetriever as LangChainRetriever
from ._llama_index import LlamaIndexRetriever as LlamaIndexRetriever
