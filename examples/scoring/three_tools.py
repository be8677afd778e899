"""Rows of three other tools, scored offline by one call each: see README.md beside this file."""

from __future__ import annotations

import argparse
from pathlib import Path

from ragwright import MeasureSetup, evaluate
from ragwright.report import summary_table

ROWS = Path(__file__).parent / "rows"
FILES = ("ragas.jsonl", "deepeval.json", "ragchecker.json")


def main() -> None:
    """Score every file by measures that need no model, and with a judge where one is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--judge", default="", help="chat model, such as openai:gpt-4.1-mini")
    judge = parser.parse_args().judge
    measures = "TokenF1,Contains,KPrecision(content+bigrams),FalseRejectionRate"
    if judge:
        measures += ",Faithfulness,AnswerRelevance"
    for name in FILES:
        evaluation = evaluate(ROWS / name, measures, MeasureSetup(model=judge))
        print(f"{name}: {len(evaluation.results)} rows")
        print(summary_table(evaluation.summaries, notes=evaluation.notes))
        print()
    answered = [result for result in evaluation.results if result.scores[3].value == 0.0]
    low = min(answered, key=lambda result: result.scores[2].value or 0.0)
    if low.row is not None:
        print("the answer with the least of its words in its passages:")
        print(f"  asked:    {low.row.user_input}")
        print(f"  answered: {low.row.response}")
        print(f"  passage:  {low.row.retrieved_contexts[0]}")


if __name__ == "__main__":
    main()
