"""Write edsl.json.gz, edsl.ep and edsl.jsonl with EDSL and its test model."""

from __future__ import annotations

import re
from functools import reduce
from operator import add
from typing import Any

from edsl import Model, QuestionFreeText, Scenario, ScenarioList
from tests.lm.logs.questions import HERE, answer, questions


def main() -> None:
    """Two draws of each question, and one that the model fails at; one Results object in three of EDSL's formats."""
    question = QuestionFreeText(question_name="persona", question_text="{{ scenario.question }}")
    local = {
        "disable_remote_inference": True, "disable_remote_cache": True, "progress_bar": False, "cache": False,
        "stop_on_exception": False, "print_exceptions": False,
    }  # fmt: skip
    made: list[Any] = []
    for number, row in enumerate(questions()):
        for draw in (1, 2):
            scenario = Scenario({**row, "tags": [row["race"], "adult"]})
            fails = {"throw_exception": True} if (number, draw) == (0, 2) else {}
            model = Model("test", service_name="test", canned_response=answer(row["question"], draw), **fails)
            made.append(question.by(ScenarioList([scenario])).by(model).run(**local))
    results = reduce(add, made)
    results.save(str(HERE / "edsl.json.gz"))
    results.save(str(HERE / "edsl.ep"))
    lines = re.sub(r'"traceback": "(?:[^"\\]|\\.)*"', '"traceback": ""', results.to_jsonl())
    (HERE / "edsl.jsonl").write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    main()
