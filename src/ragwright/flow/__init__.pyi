from ._context import Outcome as Outcome, RunnerOptions as RunnerOptions, TraceEntry as TraceEntry
from ._forecast import Forecast as Forecast, Range as Range
from ._handlers import (
    AnyHandler as AnyHandler,
    BatchHandler as BatchHandler,
    Handler as Handler,
    OnDelta as OnDelta,
    Route as Route,
    SendHandler as SendHandler,
)
from ._jobs import Job as Job, RunSummary as RunSummary, run_job as run_job, run_jobs as run_jobs
from ._lanes import Lane as Lane, RetryPolicy as RetryPolicy
from ._progress import Progress as Progress
from ._replies import (
    Claim as Claim,
    Entry as Entry,
    Replies as Replies,
)
from ._requests import (
    AskSystem as AskSystem,
    Chat as Chat,
    ChatReply as ChatReply,
    Complete as Complete,
    CompleteReply as CompleteReply,
    Embed as Embed,
    EmbedReply as EmbedReply,
    Fetch as Fetch,
    FetchReply as FetchReply,
    Lookup as Lookup,
    LookupReply as LookupReply,
    Message as Message,
    Params as Params,
    Reply as Reply,
    Request as Request,
    Rerank as Rerank,
    RerankReply as RerankReply,
    Search as Search,
    SearchReply as SearchReply,
    Sql as Sql,
    SqlReply as SqlReply,
    SystemReply as SystemReply,
    Vector as Vector,
)
from ._runner import Runner as Runner
from ._runs import Run as Run, RunRow as RunRow, Runs as Runs
from ._shared_work import SharedWork as SharedWork
from ._spending import Meter as Meter, Spending as Spending, metered as metered
from ._verbs import (
    Branch as Branch,
    Flow as Flow,
    Gather as Gather,
    PoolCall as PoolCall,
    Reading as Reading,
    Step as Step,
    ask_system as ask_system,
    branch as branch,
    chat as chat,
    complete as complete,
    embed as embed,
    fetch as fetch,
    gather as gather,
    lookup as lookup,
    reading as reading,
    rerank as rerank,
    run_in_pool as run_in_pool,
    search_dense as search_dense,
    search_keyword as search_keyword,
    send as send,
    settled as settled,
    sorted_params as sorted_params,
    sql as sql,
)
